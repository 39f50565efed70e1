package keeper_test

import (
	"path/filepath"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/needs"
)

// The run directory's disk fills up while the driver writes: lost ranges are reported, the result is written, nothing is left.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	needs.Root(t)
	r := newRig(t, `head -c 8000000 /dev/zero | tr '\0' y`, nil)
	mount(t, filepath.Dir(string(r.dir)), "size=4m")
	r.start(nil)
	r.commit(keeper.Commit{})
	s := r.result()
	if s.Exit.Cause != runstate.CauseSucceeded {
		t.Errorf("exit: %+v", s.Exit)
	}
	if s.Log.Bytes < 8_000_000 || len(s.Log.Missing) == 0 {
		t.Errorf("log: %+v", s.Log)
	}
}
