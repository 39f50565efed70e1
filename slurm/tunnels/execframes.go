package tunnels

import (
	"bytes"
	"encoding/binary"
	"io"
)

// frames takes what keeper/rayctl_keeper/slurm/access/exec.py writes: after its first words, frames of a command's standard output, standard error and, last,
// its exit code.
type frames struct {
	stdout, stderr io.Writer // nil: discarded

	head  []byte // of the next frame, as far as it is there; before the first words the end of what came instead
	begun bool   // the first words were there
	kind  byte
	left  int // bytes of the frame that are still to come

	code   []byte // as the frame has it
	broken error  // of a writer
}

const (
	frameBegin = "\x00rayctl exec\x00"
	headerSize = 5 // kind, length
	codeSize   = 4
)

// exitCode is the command's, once it has ended.
func (f *frames) exitCode() (code int, ended bool) {
	if len(f.code) < codeSize {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(f.code)), true
}

// Write implements io.Writer.
func (f *frames) Write(p []byte) (int, error) {
	taken := len(p)
	if !f.begun {
		p = f.begin(p)
	}
	for len(p) > 0 {
		if f.left == 0 {
			p = f.header(p)
			continue
		}
		part := p[:min(f.left, len(p))]
		p, f.left = p[len(part):], f.left-len(part)
		if f.broken = f.pass(part); f.broken != nil {
			return 0, f.broken
		}
	}
	return taken, nil
}

// begin returns what follows the first words. What stands before is not the command's: a task prolog or a login shell printed it.
func (f *frames) begin(p []byte) []byte {
	f.head = append(f.head, p...)
	before, rest, found := bytes.Cut(f.head, []byte(frameBegin))
	if !found {
		f.head = before[max(0, len(before)-len(frameBegin)):]
		return nil
	}
	f.begun, f.head = true, nil
	return rest
}

func (f *frames) header(p []byte) []byte {
	missing := min(headerSize-len(f.head), len(p))
	f.head = append(f.head, p[:missing]...)
	if len(f.head) == headerSize {
		f.kind, f.left, f.head = f.head[0], int(binary.BigEndian.Uint32(f.head[1:])), f.head[:0]
	}
	return p[missing:]
}

func (f *frames) pass(part []byte) error {
	to := io.Discard
	switch {
	case f.kind == 'x':
		f.code = append(f.code, part...)
	case f.kind == 'o' && f.stdout != nil:
		to = f.stdout
	case f.kind == 'e' && f.stderr != nil:
		to = f.stderr
	}
	_, err := to.Write(part)
	return err
}
