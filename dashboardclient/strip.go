package dashboardclient

import (
	"bytes"
	"regexp"
	"slices"
)

// Ray writes two lines of its own into a driver's log. The first, "2026-11-21 12:21:04,591\tINFO job_manager.py:581 -- Runtime env is
// setting up." (not in 2.9.3), begins the file. The second, "Running entrypoint for job ID: COMMAND" (2.60), is written
// through a buffer that is flushed only after the driver was started, so a quick driver's output comes before it, and it may even
// split a line of the driver's. It is therefore looked for, exactly, in everything near the beginning.
var runtimeEnvLine = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\tINFO job_manager\.py:\d{1,6} -- Runtime env is setting up\.\n`)

const (
	// runtimeEnvLineMax is more than that line has.
	runtimeEnvLineMax = 100
	// entrypointLineWithin is how far from the beginning of the file the second line is looked for.
	entrypointLineWithin = 1 << 20
)

// stripper removes Ray's own lines from the bytes of a driver's log.
type stripper struct {
	entrypointLine []byte
	first          bool   // the first line is still to be judged
	active         bool   // something may still have to be removed
	position       int64  // in the raw file, of the end of what was pushed
	held           []byte // pushed, but not yet known to be the driver's
}

// newStripper starts at this offset of the raw file.
func newStripper(id, entrypoint string, offset int64) *stripper {
	return &stripper{
		entrypointLine: []byte("Running entrypoint for job " + id + ": " + entrypoint + "\n"),
		first:          offset == 0,
		active:         offset < entrypointLineWithin,
		position:       offset,
	}
}

// push takes the next bytes of the file and returns those that are the driver's. The result is valid until the next call.
func (s *stripper) push(p []byte) []byte {
	s.position += int64(len(p))
	if !s.active {
		return p
	}
	data := slices.Concat(s.held, p)
	s.held = nil
	if s.first {
		if mayBeRuntimeEnvLine(data) {
			s.held = data
			return nil
		}
		s.first = false
		data = data[len(runtimeEnvLine.Find(data)):]
	}
	if before, after, found := bytes.Cut(data, s.entrypointLine); found {
		s.active = false
		return append(before[:len(before):len(before)], after...)
	}
	if s.position > entrypointLineWithin {
		s.active = false
		return data
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
