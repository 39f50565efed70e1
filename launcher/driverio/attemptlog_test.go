package driverio_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestAttemptOutput: Ray's lines are taken out of both programs' logs, in whatever pieces the log comes.
func TestAttemptOutput(t *testing.T) {
	const first = "2026-11-21 12:21:04,591\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
	j := &runstate.Job{SubmissionID: "n-1", Entrypoint: "drive", Prepare: &runstate.Prepare{Entrypoint: "load"}}
	prepare := first + "Running entrypoint for job n-prepare-1: load\nloaded\n"
	driver := first + "Running entrypoint for job n-1: drive\ndriven\n"
	for name, c := range map[string]struct {
		log   string
		begin int64
		want  string
	}{
		"both":           {prepare + driver, int64(len(prepare)), "loaded\ndriven\n"},
		"no prepare":     {driver, 0, "driven\n"},
		"no driver":      {prepare, runstate.AllPrepare, "loaded\n"},
		"held back":      {first + "Runn", runstate.AllPrepare, "Runn"},
		"prepare is cut": {first + "Runn" + driver, int64(len(first) + 4), "Runndriven\n"},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			var out strings.Builder
			o := driverio.NewAttemptOutput(&out, j, "n-1", c.begin, 0)
			for rest := []byte(c.log); len(rest) > 0; {
				n, err := o.Write(rest[:min(size, len(rest))])
				if err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := o.Flush(); err != nil || out.String() != c.want {
				t.Errorf("%s in pieces of %d: %q, %v, want %q", name, size, out.String(), err, c.want)
			}
		}
	}
}
