package slurm

import (
	"context"
	"fmt"
	"strings"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

// verdict is what Slurm says of a job that ended without a result, and if its batch script failed, what that printed: before the keeper's first word
// it could not be started, by an interpreter that is missing, too old or not executable.
func (c *cluster) verdict(ctx context.Context, j controller.Job) runstate.Verdict {
	v := c.fateOf(ctx, j)
	if j.State != controller.StateFailed || j.Signal != 0 || v.Message != scriptFailed {
		return v
	}
	said, file := c.lastWords(ctx), c.path(script.OutFile)
	if said == "" {
		said = "it printed nothing"
	}
	if c.state == nil {
		return runstate.Verdict{Final: true, Cause: runstate.CauseStartFailed, Message: fmt.Sprintf("the batch script could not start the keeper with %s: %s; correct ray.python (all of its output: %s)", c.plan(0).HostPython(), said, file)}
	}
	return runstate.Verdict{Cause: v.Cause, Message: fmt.Sprintf("%s: %s (all of its output: %s)", v.Message, said, file)}
}

const (
	lastWordsSize  = 4 << 10 // bytes of a long output that are looked at
	lastWordsLines = 3
)

// lastWords are the last lines that the batch script printed, in one; "" if they cannot be read.
func (c *cluster) lastWords(ctx context.Context) string {
	var reply struct {
		Size int64
		Data []byte
	}
	read := func(offset int64) error {
		return c.l.site.files.Call(ctx, "read", map[string]any{"path": c.path(script.OutFile), "offset": offset}, &reply)
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
