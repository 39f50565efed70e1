package logstream

import "bytes"

// lineStarts records where the last lines written to it begin.
type lineStarts struct {
	keep     int       // how many
	strip    *Stripper // nil: every line counts
	ring     []int64   // offsets of line beginnings; once full, the oldest is at count modulo keep
	count    int       // lines so far
	position int64
	midLine  bool
}

func (s *lineStarts) Write(p []byte) (int, error) {
	if s.strip == nil {
		s.take(p)
	} else {
		s.take(s.strip.push(p))
	}
	return len(p), nil
}

func (s *lineStarts) take(p []byte) {
	for rest := p; len(rest) > 0; {
		if !s.midLine {
			s.begin()
		}
		end := bytes.IndexByte(rest, '\n')
		s.midLine = end < 0
		line := len(rest)
		if !s.midLine {
			line = end + 1
		}
		s.position += int64(line)
		rest = rest[line:]
	}
}

func (s *lineStarts) begin() {
	if len(s.ring) < s.keep {
		s.ring = append(s.ring, s.position)
	} else {
		s.ring[s.count%s.keep] = s.position
	}
	s.count++
}

// first is the offset of the oldest recorded line, 0 if there is none. Nothing may be written after it.
func (s *lineStarts) first() int64 {
	if s.strip != nil {
		s.take(s.strip.flush())
	}
	at := int64(0)
	switch {
	case len(s.ring) == 0:
	case len(s.ring) < s.keep:
		at = s.ring[0]
	default:
		at = s.ring[s.count%s.keep]
	}
	if s.strip != nil && at > 0 { // from offset 0 on the caller still strips Ray's lines
		at = s.strip.raw(at)
	}
	return at
}

// LineStarts finds where the last lines begin of what is written to it, whatever their length.
type LineStarts struct{ starts lineStarts }

// NewLineStarts is for so many last lines.
func NewLineStarts(lines int) *LineStarts { return &LineStarts{lineStarts{keep: lines}} }

func (s *LineStarts) Write(p []byte) (int, error) { return s.starts.Write(p) }

// Count is how many lines were begun so far.
func (s *LineStarts) Count() int { return s.starts.count }

// First is the offset at which the first of the last lines begins, 0 if nothing was written.
func (s *LineStarts) First() int64 { return s.starts.first() }

// LastLines are the driver's last lines of a tail of its log, without Ray's first line, if the tail begins with it.
func LastLines(tail []byte, lines int) []byte {
	tail = tail[len(runtimeEnvLine.Find(tail)):]
	starts := &lineStarts{keep: lines}
	starts.take(tail)
	return tail[starts.first():]
}
