//go:build linux

package slurm_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestFaults breaks a site of four nodes, one thing after the other. Each time there is an exit code and a sentence, and nothing is left.
// Killed keepers, heads and clients are the conformance suite's, a killed worker is Work's.
func TestFaults(t *testing.T) {
	small := smallDisk(t)
	b := start(t, slurmtest.Options{Nodes: 4, Binds: []string{small}})
	b.clientDiesAfterSbatch(t) // its end is looked at last: it takes two minutes, of which nothing happens in
	t.Run("FullDisk", func(t *testing.T) { b.fullDisk(t, small) })
	t.Run("DiskFills", func(t *testing.T) { b.diskFills(t, small) })
	t.Run("UnreadableToken", b.unreadableToken)
	t.Run("Cancelled", b.cancelled)
	t.Run("ControllerRestarts", b.controllerRestarts)
	t.Run("WorkerNodeDies", b.workerNodeDies)
	t.Run("HeadNodeDies", b.headNodeDies)
	t.Run("NodeIsDown", b.nodeIsDown)
	t.Run("Kept", b.kept)
	t.Run("DeadClient", b.deadClient)
	for _, l := range made {
		l.Close()
	}
	b.RequireClean(t)
}

// smallDisk makes a file system that a test can fill.
func smallDisk(t *testing.T) string {
	t.Helper()
	needs.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=3m,mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all space of the disk, until free.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, zeroes{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk does not get full: %v", err)
	}
	_ = f.Close()
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// at is the testbed with another slurm.dir.
func (b *bed) at(dir string) *bed {
	other := *b
	other.beside.Dir = dir
	return &other
}

// fullDisk: there is no room for a launch.
func (b *bed) fullDisk(t *testing.T, disk string) {
	b = b.at(disk)
	free := fill(t, disk)
	defer free()
	_, err := b.launcher().Launch(t.Context(), b.named("full", "echo never"), launcher.Payload{})
	if launcher.ExitCode(err) != launcher.CodeStartFailed || !strings.Contains(err.Error(), "no space is left") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v (code %d)", err, launcher.ExitCode(err))
	}
	b.nothingLeft(t, "full")
}

// diskFills: a disk that fills while the driver runs costs neither its exit code nor its output, for whoever watches.
func (b *bed) diskFills(t *testing.T, disk string) {
	b = b.at(disk)
	g := b.gate(t)
	r := b.begin(t, b.named("fills", "echo begun; "+g.wait()+"; seq 200000; exit 3"), launcher.Payload{})
	r.until("running", jobRuns)
	free := fill(t, disk)
	g.open()
	receipt := r.ended(3, "driver-failed", "code 3")
	free()
	if out := r.out.String(); !strings.HasPrefix(out, "begun\n1\n") || !strings.HasSuffix(out, "\n200000\n") {
		t.Errorf("%d bytes of output were seen, ending with %q", len(out), out[max(0, len(out)-20):])
	}
	if receipt.Exit.Origin != keeper.OriginDriver {
		t.Errorf("exit: %+v", receipt.Exit)
	}
	r.forgotten()
}

// unreadableToken: the keeper says what it lacks instead of starting Ray without it. To be a directory is to be unreadable for root, too.
func (b *bed) unreadableToken(t *testing.T) {
	release := b.closePartition(t)
	r := b.begin(t, b.named("token", "echo never"), launcher.Payload{})
	r.until("queued", func(s launcher.Status) bool { return s.Reason.Code != "Submitted" && s.Reason.Code != "" })
	token := filepath.Join(b.run(r.id), "1", keeper.TokenFile)
	if err := errors.Join(os.Remove(token), os.Mkdir(token, 0o700)); err != nil {
		t.Fatal(err)
	}
	release()
	r.ended(launcher.CodeStartFailed, "start-failed", "token")
	r.forgotten()
}

// cancelled: somebody ends the job by Slurm's own means, without a warning.
func (b *bed) cancelled(t *testing.T) {
	s := b.named("cancelled", "echo begun; exec sleep 600")
	s.Secrets = []spec.Secret{{Name: "WORD"}}
	r := b.begin(t, s, launcher.Payload{Secrets: map[string]string{"WORD": "swordfish"}})
	r.until("running", jobRuns)
	b.scancel(t, r.id)
	r.ended(launcher.CodeInterrupted, "interrupted", "cancelled")
	r.forgotten()
}

// controllerRestarts: the controller is away while the job waits, and killed while it runs and while it ends. The run is none the wiser.
func (b *bed) controllerRestarts(t *testing.T) {
	g := b.gate(t)
	b.closePartition(t) // a restarted controller has it open again
	r := b.begin(t, b.named("steady", "echo begun; "+g.wait()+"; echo ended; exit 3"), launcher.Payload{})
	r.until("queued", func(s launcher.Status) bool { return s.Reason.Code == "PartitionDown" })
	if err := b.StopController(); err != nil {
		t.Fatal(err)
	}
	r.until("unreachable", func(s launcher.Status) bool { return s.Unreachable != "" && s.Phase == launcher.Queued })
	b.startController(t)
	r.until("running", jobRuns)
	if err := b.KillController(); err != nil {
		t.Fatal(err)
	}
	g.open()
	b.Await(t, "the keeper to have ended", func(context.Context) (bool, error) {
		_, err := os.Stat(filepath.Join(b.run(r.id), "1", keeper.ResultFile))
		return err == nil, nil
	})
	b.startController(t)
	r.ended(3, "driver-failed", "code 3")
	if out := r.out.String(); out != "begun\nended\n" {
		t.Errorf("output %q", out)
	}
	r.forgotten()
}

func (b *bed) startController(t *testing.T) {
	t.Helper()
	if err := b.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// spread is a cluster whose head and worker are on nodes of their own.
func (b *bed) spread(name, entrypoint string) *spec.ClusterSpec {
	s := b.twoGroups()
	s.Name, s.Job.Entrypoint = name, entrypoint
	exclusive := true
	s.Slurm = &spec.Slurm{SlurmGroup: spec.SlurmGroup{Exclusive: &exclusive}}
	return s
}

// powerOff cuts the power of the node of one Ray node, until restore.
func (b *bed) powerOff(t *testing.T, s launcher.Status, member string) (restore func()) {
	t.Helper()
	for _, n := range s.Nodes {
		if n.Name != member {
			continue
		}
		i, err := strconv.Atoi(strings.TrimPrefix(n.Host, "node"))
		if err != nil {
			t.Fatalf("%s is on %q: %v", member, n.Host, err)
		}
		if err := b.PowerOffNode(i); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := b.PowerOnNode(i); err != nil {
				t.Error(err)
			}
			b.AwaitNode(t, i, "idle")
		}
	}
	t.Fatalf("there is no %s in %+v", member, s.Nodes)
	return nil
}

// workerNodeDies: the next attempt runs on other nodes and knows why.
func (b *bed) workerNodeDies(t *testing.T) {
	s := b.spread("one-less", `echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; [ $RAYCTL_ATTEMPT != 1 ] || sleep 600`)
	s.Job.Restarts.NodeFailure = 1
	r := b.begin(t, s, launcher.Payload{})
	defer b.powerOff(t, r.until("running", jobRuns), "b-0")()
	receipt := r.ended(0, "succeeded", "")
	if want := "attempt 1 because\nattempt 2 because lost\n"; r.out.String() != want || len(receipt.Attempts) != 2 || receipt.Attempts[0].Cause != keeper.CauseLost {
		t.Errorf("output %q, want %q; attempts %+v\n%s", r.out.String(), want, receipt.Attempts, b.story(t, r.id))
	}
	r.forgotten()
}

// headNodeDies: with no restart left it is the end, although Slurm would run the job again.
func (b *bed) headNodeDies(t *testing.T) {
	r := b.begin(t, b.spread("headless", "echo begun; exec sleep 600"), launcher.Payload{})
	defer b.powerOff(t, r.until("running", jobRuns), "a-0")()
	r.ended(launcher.CodeLost, "lost", "node")
	r.forgotten()
}

// nodeIsDown: who waits for a node that does not answer is told so, and gets it when it is back.
func (b *bed) nodeIsDown(t *testing.T) {
	if err := b.KillSlurmd(3); err != nil {
		t.Fatal(err)
	}
	b.AwaitNode(t, 3, "down")
	s := b.named("patient", "hostname")
	s.Slurm = &spec.Slurm{SlurmGroup: spec.SlurmGroup{Nodelist: "node3"}}
	r := b.begin(t, s, launcher.Payload{})
	r.until("explained", func(s launcher.Status) bool {
		return s.Phase == launcher.Queued && strings.HasPrefix(s.Reason.Code, "ReqNodeNotAvail") && s.Reason.Message != ""
	})
	if err := b.StartSlurmd(3); err != nil {
		t.Fatal(err)
	}
	if r.ended(0, "succeeded", ""); r.out.String() != "node3\n" {
		t.Errorf("output %q", r.out.String())
	}
	r.forgotten()
}

// kept: the record goes when lifetime.keep has passed, and the name is free again.
func (b *bed) kept(t *testing.T) {
	s := b.named("kept", "echo once")
	s.Lifetime.Keep = durationPtr(time.Hour)
	b.begin(t, s, launcher.Payload{}).ended(0, "succeeded", "")
	list := func() int {
		t.Helper()
		found, err := b.launcher().List(t.Context(), launcher.Selector{Names: []string{"kept"}, All: true})
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if n := list(); n != 1 {
		t.Errorf("%d records, want one", n)
	}
	result := filepath.Join(b.run("kept"), "1", keeper.ResultFile)
	longAgo := time.Now().Add(-time.Hour - time.Minute)
	if err := os.Chtimes(result, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	if n := list(); n != 0 {
		t.Errorf("%d records after their time", n)
	}
	b.nothingLeft(t, "kept")
}

func durationPtr(d time.Duration) *spec.Duration { v := spec.Duration(d); return &v }

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
	}
	if err := json.Unmarshal([]byte(setting), &task); err != nil {
		panic(err)
	}
	l := slurm.New(slurm.Config{Runner: dying{task.Beside}, Dir: task.Beside.Dir})
	_, err := l.Launch(context.Background(), task.Spec, launcher.Payload{Secrets: map[string]string{"WORD": "swordfish"}})
	panic(err)
}

// clientDiesAfterSbatch leaves a job whose client is dead.
func (b *bed) clientDiesAfterSbatch(t *testing.T) {
	t.Helper()
	s := b.named("orphan", "echo never")
	s.Secrets = []spec.Secret{{Name: "WORD"}}
	setting, err := json.Marshal(map[string]any{"Beside": b.beside, "Spec": s})
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
	if jobs, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name=orphan"); err != nil || jobs == "" {
		t.Fatalf("there is no job: %v", err)
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
