package batchjob

import (
	"context"
	"fmt"
	"strings"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

// Verdict derives the end of a job without a result from Slurm's state of it, and if its batch script failed, from what that printed: where there is no state
// document, the keeper could not be started, because the interpreter is missing, too old or not executable.
func (b *Job) Verdict(ctx context.Context, j controller.Job) runstate.Verdict {
	v := b.fateOf(ctx, j)
	if j.State != controller.StateFailed || j.Signal != 0 || v.Message != scriptFailed {
		return v
	}
	said, file := b.LastWords(ctx), b.Path(script.OutFile)
	if said == "" {
		said = "it printed nothing"
	}
	if b.State == nil {
		return runstate.Verdict{Final: true, Cause: runstate.CauseStartFailed, Message: fmt.Sprintf("the batch script could not start the keeper with %s: %s; correct ray.python or slurm.python (all of its output: %s)", script.PlanOf(b.Run, 0).HostPython(), said, file)}
	}
	return runstate.Verdict{Cause: v.Cause, Message: fmt.Sprintf("%s: %s (all of its output: %s)", v.Message, said, file)}
}

const (
	lastWordsSize  = 4 << 10 // bytes of a long output that are looked at
	lastWordsLines = 3
)

// LastWords are the last lines that the batch script printed, in one; "" if they cannot be read.
func (b *Job) LastWords(ctx context.Context) string {
	var reply struct {
		Size int64
		Data []byte
	}
	read := func(offset int64) error {
		return b.Root.Files.Call(ctx, "read", map[string]any{"path": b.Path(script.OutFile), "offset": offset}, &reply)
	}
	err := read(0)
	if err == nil && reply.Size > int64(len(reply.Data)) {
		err = read(reply.Size - lastWordsSize)
	}
	if err != nil {
		return ""
	}
	var lines []string
	for line := range strings.Lines(string(reply.Data)) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-lastWordsLines):], " | ")
}
