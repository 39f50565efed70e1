package driverio

import (
	"bytes"
	"strconv"
)

// rankLines reads the output of a command that runs on every node (keeper/rayctl_keeper/ranks/main.py, where the records are described), however it is cut.
type rankLines struct {
	rank           int // whose line this is, or noRank
	part           bool
	known          bool   // rank and part are
	start          []byte // of the line, until it is known whose it is
	waitsForDriver bool   // what job.prepare prints is no record
}

const (
	noRank = -1
	// driverLine is what the heading of the driver prints.
	driverLine = "==> driver <=="
	rankPrefix = "[rank "
	mostDigits = 9
)

// read calls take with what a rank has written, and with all else, of which the rank is noRank.
func (r *rankLines) read(p []byte, take func(rank int, data []byte)) {
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after
		for len(line) > 0 && !r.known {
			r.start, line = append(r.start, line[0]), line[1:]
			r.look()
			if r.known && r.rank == noRank {
				take(noRank, r.start)
			}
		}
		if len(line) > 0 {
			take(r.rank, line)
		}
		if !ended {
			return
		}
		r.end(take)
	}
}

// look finds out whose line begins in this way.
func (r *rankLines) look() {
	if r.waitsForDriver {
		r.known, r.rank = len(r.start) > len(driverLine), noRank
		return
	}
	if n := min(len(r.start), len(rankPrefix)); string(r.start[:n]) != rankPrefix[:n] {
		r.known, r.rank = true, noRank
		return
	}
	if len(r.start) < len(rankPrefix)+3 {
		return
	}
	number, rest, closed := bytes.Cut(r.start[len(rankPrefix):], []byte("]"))
	rank, err := strconv.ParseUint(string(number), 10, 31)
	switch {
	case err != nil || len(number) > mostDigits || string(number) != strconv.FormatUint(rank, 10):
		r.known, r.rank = true, noRank
	case !closed || len(rest) == 0:
	case rest[0] == ' ' || rest[0] == '+':
		r.known, r.rank, r.part = true, int(rank), rest[0] == '+'
	default:
		r.known, r.rank = true, noRank
	}
}

// end is the end of a line, which belongs to it unless it is a part.
func (r *rankLines) end(take func(rank int, data []byte)) {
	if !r.known {
		r.rank = noRank
		take(noRank, r.start)
	}
	if r.rank == noRank || !r.part {
		take(r.rank, []byte("\n"))
	}
	if r.waitsForDriver && string(r.start) == driverLine {
		r.waitsForDriver = false
	}
	r.rank, r.part, r.known, r.start = noRank, false, false, r.start[:0]
}

// pending is the beginning of a line, of which nobody knows yet whose it is.
func (r *rankLines) pending() []byte {
	if r.known {
		return nil
	}
	return r.start
}
