package driverio

import (
	"bytes"
	"io"
	"strconv"
)

// RankOutput passes on the bytes of one rank, of the output of a command that runs on every node (keeper/rayctl_keeper/ranks/main.py, where the records are described).
type RankOutput struct {
	w              io.Writer
	whole, part    []byte // how records of this rank begin
	start          []byte // of the line, until it is known whose it is
	state          lineState
	waitsForDriver bool // what job.prepare prints is no record
}

type lineState int

const (
	lineBegins lineState = iota
	lineIsOther
	lineIsWhole
	lineIsPart
)

// NewRankOutput writes to w. prepares: the job has a job.prepare, whose output comes first.
func NewRankOutput(w io.Writer, rank int, prepares bool) *RankOutput {
	prefix := "[rank " + strconv.Itoa(rank) + "]"
	return &RankOutput{w: w, whole: []byte(prefix + " "), part: []byte(prefix + "+"), waitsForDriver: prepares}
}

func (o *RankOutput) Write(p []byte) (int, error) {
	var out []byte
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after
		for len(line) > 0 && o.state == lineBegins {
			o.start, line = append(o.start, line[0]), line[1:]
			o.state = o.kind()
		}
		if o.state == lineIsWhole || o.state == lineIsPart {
			out = append(out, line...)
		}
		if !ended {
			break
		}
		if o.state == lineIsWhole {
			out = append(out, '\n')
		}
		if o.waitsForDriver && string(o.start) == driverLine {
			o.waitsForDriver = false
		}
		o.state, o.start = lineBegins, o.start[:0]
	}
	if len(out) == 0 {
		return len(p), nil
	}
	if _, err := o.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// driverLine is what the heading of the driver prints.
const driverLine = "==> driver <=="

func (o *RankOutput) kind() lineState {
	switch {
	case o.waitsForDriver && len(o.start) <= len(driverLine):
		return lineBegins
	case o.waitsForDriver:
		return lineIsOther
	case bytes.Equal(o.start, o.whole):
		return lineIsWhole
	case bytes.Equal(o.start, o.part):
		return lineIsPart
	case len(o.start) < len(o.whole):
		return lineBegins
	}
	return lineIsOther
}
