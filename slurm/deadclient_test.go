//go:build linux

package slurm_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm"
)

// dyingClient names the environment variable that makes this test binary a client which dies between sbatch's answer and the commit.
const dyingClient = "RAYCTL_SLURM_TEST_DYING_CLIENT"

// dying is the site as that client sees it: whoever gets sbatch's answer is dead.
type dying struct{ beside }

func (d dying) Command(ctx context.Context, argv ...string) *exec.Cmd {
	for _, word := range argv {
		if word == "sbatch" {
			return d.beside.Command(ctx, append([]string{"sh", "-c", `"$@" >&2; kill -9 ` + strconv.Itoa(os.Getpid()), "sh"}, argv...)...)
		}
	}
	return d.beside.Command(ctx, argv...)
}

// dyingClientMain launches a cluster; it does not return.
func dyingClientMain(setting string) {
	var task struct {
		Beside beside
		Spec   *spec.ClusterSpec
		Offers launcher.ID // what this cluster's keeper offers is submitted, instead of a launch
	}
	if err := json.Unmarshal([]byte(setting), &task); err != nil {
		panic(err)
	}
	l := slurm.New(slurm.Config{Runner: dying{task.Beside}, Dir: task.Beside.Dir})
	if task.Offers != "" {
		launcher.SubmitOffers(context.Background(), l, task.Offers, slog.Default())
		panic("it lives")
	}
	_, err := l.Launch(context.Background(), task.Spec, launcher.Payload{Secrets: map[string]string{"WORD": "swordfish"}})
	panic(err)
}

// clientDiesAfterSbatch leaves a job whose client is dead.
func (b *bed) clientDiesAfterSbatch(t *testing.T) {
	t.Helper()
	s := b.named("orphan", "echo never")
	s.Secrets = []spec.Secret{{Name: "WORD"}}
	b.clientDies(t, map[string]any{"Beside": b.beside, "Spec": s})
	if jobs, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name=orphan"); err != nil || jobs == "" {
		t.Fatalf("there is no job: %v", err)
	}
}

// clientDies runs a client that is killed when sbatch has submitted.
func (b *bed) clientDies(t *testing.T, task map[string]any) {
	t.Helper()
	setting, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	client := exec.Command(exe, "-test.run=^$")
	client.Env = append(os.Environ(), dyingClient+"="+string(setting))
	if out, err := client.CombinedOutput(); client.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the client was not killed: %v\n%s", err, out)
	}
}

// deadClient: the job of a client that died before the commit starts nothing and leaves nothing.
func (b *bed) deadClient(t *testing.T) {
	if out, err := os.ReadFile(filepath.Join(b.run("orphan"), "1", "keeper.log")); err == nil {
		t.Errorf("a keeper was there: %s", out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), orders.Lease+patience)
	defer cancel()
	for ctx.Err() == nil { // the bed's own waits are shorter than the lease
		if left := b.allocated(t, "orphan"); len(left) == 0 {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	b.nothingLeft(t, "orphan")
}
