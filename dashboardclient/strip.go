package dashboardclient

import (
	"bytes"
	"regexp"
	"slices"
)

// Ray writes two lines of its own into a driver's log. The first, "2026-11-21 12:21:04,591\tINFO job_manager.py:581 -- Runtime env is
// setting up." (not in 2.9.3), begins the file. The second, "Running entrypoint for job ID: COMMAND" (2.60), is written
// through a buffer that is flushed only after the driver was started, so a quick driver's output comes before it (on a busy machine 10 MB
// were seen), and it may even split a line of the driver's. It is therefore looked for, exactly, until it has come.
var runtimeEnvLine = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\tINFO job_manager\.py:\d{1,6} -- Runtime env is setting up\.\n`)

// runtimeEnvLineMax is more than the first line has.
const runtimeEnvLineMax = 100

// stripper removes Ray's own lines from the bytes of a driver's log.
type stripper struct {
	entrypointLine []byte
	first          bool   // the first line is still to be judged
	active         bool   // something may still have to be removed
	position       int64  // in the raw file, of the end of what was pushed
	held           []byte // pushed, but not yet known to be the driver's

	firstLength  int64 // of the first line, if it was Ray's
	entrypointAt int64 // where in the raw file the second was; -1: it was not seen
}

// newStripper starts at this offset of the raw file.
func newStripper(id, entrypoint string, offset int64) *stripper {
	return &stripper{
		entrypointLine: []byte("Running entrypoint for job " + id + ": " + entrypoint + "\n"),
		first:          offset == 0,
		active:         true,
		position:       offset,
		entrypointAt:   -1,
	}
}

// raw is where in the raw file something begins that is so far into what the driver wrote.
func (s *stripper) raw(offset int64) int64 {
	offset += s.firstLength
	if s.entrypointAt >= 0 && offset > s.entrypointAt {
		offset += int64(len(s.entrypointLine))
	}
	return offset
}

// push takes the next bytes of the file and returns those that are the driver's. The result is valid until the next call.
func (s *stripper) push(p []byte) []byte {
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

// flush returns what is held back: nothing follows it that would make it Ray's.
func (s *stripper) flush() []byte {
	held := s.held
	s.held, s.active = nil, false
	return held
}

// mayBeRuntimeEnvLine reports whether the first line is incomplete, but could become Ray's.
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

// overlap is the length of the longest end of data that is a beginning of line.
func overlap(data, line []byte) int {
	for n := min(len(data), len(line)-1); n > 0; n-- {
		if bytes.Equal(data[len(data)-n:], line[:n]) {
			return n
		}
	}
	return 0
}
