package logstream

import (
	"bytes"
	"regexp"
	"slices"
)

// Ray writes two lines of its own into a driver's log. The first, "2026-11-21 12:21:04,591\tINFO job_manager.py:581 -- Runtime env is
// setting up." (not in 2.9.3), begins the file. The second is "Running entrypoint for job ID: COMMAND" (2.60). Ray flushes its buffer
// only after the driver was started, so that a quick driver's output comes before it (10 MB were seen on a busy machine). It may even
// split a line of the driver's. The stripper therefore searches for exactly this line until it was found.
var runtimeEnvLine = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\tINFO job_manager\.py:\d{1,6} -- Runtime env is setting up\.\n`)

// runtimeEnvLineMax is longer than the first line.
const runtimeEnvLineMax = 100

// Stripper removes Ray's own lines from the bytes of a driver's log.
type Stripper struct {
	entrypointLine []byte
	first          bool   // the first line is not checked yet
	active         bool   // there may be more to remove
	position       int64  // offset in the raw file after the last push
	held           []byte // pushed, but possibly Ray's

	firstLength  int64 // of the first line, if it was Ray's
	entrypointAt int64 // offset of the second in the raw file; -1: not found
}

// NewStripper starts at this offset of the raw file.
func NewStripper(id, entrypoint string, offset int64) *Stripper {
	return &Stripper{
		entrypointLine: []byte("Running entrypoint for job " + id + ": " + entrypoint + "\n"),
		first:          offset == 0,
		active:         true,
		position:       offset,
		entrypointAt:   -1,
	}
}

// From is an unused stripper for the same log that starts at this offset.
func (s *Stripper) From(offset int64) *Stripper {
	return &Stripper{entrypointLine: s.entrypointLine, first: offset == 0, active: true, position: offset, entrypointAt: -1}
}

// raw converts an offset in the driver's output to one in the raw file.
func (s *Stripper) raw(offset int64) int64 {
	offset += s.firstLength
	if s.entrypointAt >= 0 && offset > s.entrypointAt {
		offset += int64(len(s.entrypointLine))
	}
	return offset
}

// push processes the next bytes of the file and returns the driver's. The result is valid until the next call.
func (s *Stripper) push(p []byte) []byte {
	s.position += int64(len(p))
	if !s.active {
		return p
	}
	data := p
	if len(s.held) > 0 {
		data, s.held = slices.Concat(s.held, p), nil
	}
	if s.first {
		if mayBeRuntimeEnvLine(data) {
			s.held = bytes.Clone(data)
			return nil
		}
		s.first = false
		s.firstLength = int64(len(runtimeEnvLine.Find(data)))
		data = data[s.firstLength:]
	}
	if before, after, found := bytes.Cut(data, s.entrypointLine); found {
		s.active = false
		s.entrypointAt = s.position - int64(len(data)-len(before))
		return append(before[:len(before):len(before)], after...)
	}
	keep := overlap(data, s.entrypointLine)
	s.held = bytes.Clone(data[len(data)-keep:])
	return data[:len(data)-keep]
}

// flush returns the held bytes: as nothing follows, they are the driver's.
func (s *Stripper) flush() []byte {
	held := s.held
	s.held, s.active = nil, false
	return held
}

// mayBeRuntimeEnvLine reports whether the first line is incomplete and may still become Ray's.
func mayBeRuntimeEnvLine(data []byte) bool {
	if len(data) > runtimeEnvLineMax || bytes.IndexByte(data, '\n') >= 0 {
		return false
	}
	const form = "0000-00-00 00:00:00,000\tINFO job_manager.py:"
	for i := 0; i < len(data) && i < len(form); i++ {
		digit := data[i] >= '0' && data[i] <= '9'
		if form[i] == '0' && !digit || form[i] != '0' && data[i] != form[i] {
			return false
		}
	}
	return true
}

// overlap is the length of the longest suffix of data that is a prefix of line.
func overlap(data, line []byte) int {
	for n := min(len(data), len(line)-1); n > 0; n-- {
		if bytes.Equal(data[len(data)-n:], line[:n]) {
			return n
		}
	}
	return 0
}

// SkipToTail prepares for a tail of the file, which rarely begins where the file does, and returns how many of its lines may be Ray's.
func (s *Stripper) SkipToTail() (lines int) {
	s.first = false // see LastLines
	return 1 + bytes.Count(s.entrypointLine, []byte("\n"))
}
