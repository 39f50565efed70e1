package keeper_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// A step command starts the supervisors, as srun does: here a shell that sets SLURM_PROCID for each and forwards signals.
func TestSupervisorsOfASlurmStep(t *testing.T) {
	t.Setenv("SLURM_JOB_ID", "7")
	t.Setenv("SLURM_CPUS_ON_NODE", "2")
	r := newRig(t, `echo "has" $(env | grep ^SLURM_); exit 4`, nil)
	python := r.orders.Ray.Python
	r.orders.Advertise, r.orders.Network, r.orders.Ports, r.orders.WatchStdin = "auto", "127.0.0.0/8", "21000-21999", false
	r.orders.Groups[0].CPUs, r.orders.Groups[0].GPUs = nil, nil
	r.orders.Start = keeper.Start{Mode: keeper.StartStep, Argv: []string{"sh", "-c",
		`trap 'kill -USR1 $child; wait $child; exit $?' USR1; SLURM_PROCID=0 "$0" -S -E "$1" node "$2" --slurm & child=$!; wait $child`,
		python, r.zip, string(r.dir)}}
	r.start(nil)
	r.must(r.dir.Commit(keeper.Commit{}))
	s := r.result()
	if s.Exit.Cause != runstate.CauseDriverFailed || s.Exit.Code != 4 {
		t.Errorf("exit: %+v", s.Exit)
	}
	if !strings.HasSuffix(r.log(), "\nhas SLURM_JOB_ID=7\n") {
		t.Errorf("the driver has other variables of Slurm's than the job: %q", r.log())
	}
}
