package rundir

import (
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/remote"
)

// TestFullDisk: the sentence names the directory and the machine that has it, also before that machine has said its name.
func TestFullDisk(t *testing.T) {
	r := NewRoot(Config{Runner: &remote.SSH{Host: "login1"}, Dir: "~/.rayctl", Option: "slurm.dir"})
	for owner, want := range map[string]string{
		"":            "no space is left for /home/ann/.rayctl on login1",
		"ann@alpha-7": "no space is left for /home/ann/.rayctl on alpha-7",
	} {
		r.owner = owner
		for _, number := range []string{"ENOSPC", "EDQUOT"} {
			err := r.writeFailed("/home/ann/.rayctl", &remote.FileError{Errno: number})
			if launcher.ExitCode(err) != runstate.CodeStartFailed || err.Error() != want+": free some space, or set slurm.dir to another file system" {
				t.Errorf("%s, %q: %v, want %q", number, owner, err, want)
			}
		}
	}
	if err := r.writeFailed("/x", &remote.FileError{Errno: "EACCES"}); launcher.ExitCode(err) != runstate.CodePermission {
		t.Errorf("not permitted: %v", err)
	}
}
