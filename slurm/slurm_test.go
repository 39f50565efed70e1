//go:build linux

package slurm_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"al.essio.dev/pkg/shellescape"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/conformance/terminaltest"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestSlurm runs on one testbed of four nodes: first what has the controller or the nodes for itself, then the suite. What would follow the suite would run alone at the
// end of the package.
func TestSlurm(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t, slurmtest.Options{Nodes: 4, GPUs: []slurmtest.GPU{{Type: "h100", Count: 2}}, Preemption: true, LoginSSH: true})
	// What users set for their own commands is not for ours: squeue would not show our jobs.
	b.Env = append(b.Env, "SQUEUE_PARTITION=high", "SQUEUE_STATES=SUSPENDED", "SCANCEL_PARTITION=high", "SLURM_TIME_FORMAT=%H")
	t.Run("Refused", b.refused)
	t.Run("CannotStart", b.cannotStart)
	t.Run("Queue", b.queue)
	t.Run("SSH", b.overSSH)
	t.Run("WrongHostKey", b.aWrongHostKey)
	t.Run("ControllerDown", b.controllerDown)
	t.Run("AllNodes", b.allNodes)
	t.Run("Work", b.work)
	t.Run("Preempted", b.preempted)
	t.Run("EndedBetween", b.endedBetween)
	t.Run("Conformance", func(t *testing.T) {
		t.Run("TimeLimit", func(t *testing.T) { // mostly waits
			pace.Parallel(t)
			b.timeLimit(t)
		})
		conformance.Run(t, b.config(t))
	})
	b.leavesNothing(t)
}

// refused: what can never run is refused at once, in a sentence with the next step, and leaves nothing.
func (b *bed) refused(t *testing.T) {
	l := b.launcher()
	limits := func(values ...string) {
		if _, err := b.Slurm(t.Context(), "scontrol", append([]string{"update", "PartitionName=high"}, values...)...); err != nil {
			t.Error(err)
		}
	}
	limits("MaxTime=5", "MaxMemPerNode=2048")
	defer limits("MaxTime=UNLIMITED", "MaxMemPerNode=0")
	for name, test := range map[string]struct {
		change func(*spec.ClusterSpec)
		want   string
	}{
		"no such partition":   {func(s *spec.ClusterSpec) { slurmspec.Of(s).Partition = "nope; $(id)" }, "slurm.partition"},
		"more nodes":          {func(s *spec.ClusterSpec) { *s.Workers[0].Replicas = 99 }, "number of workers"},
		"more CPUs":           {func(s *spec.ClusterSpec) { s.Workers[0].CPUs = 1000 }, "cpus"},
		"no such GPU":         {func(s *spec.ClusterSpec) { s.Workers[0].GPUs, s.Workers[0].GPUType = 1, "b200" }, "gpus"},
		"no such feature":     {func(s *spec.ClusterSpec) { slurmspec.Of(s).Constraint = "'quoted' thing" }, "slurm.constraint"},
		"no such node":        {func(s *spec.ClusterSpec) { slurmspec.Of(s).Nodelist = "elsewhere" }, "slurm.nodelist"},
		"no such argument":    {func(s *spec.ClusterSpec) { slurmspec.Of(s).ExtraArgs = []string{"--no-such-option=1"} }, "extraArgs"},
		"no such reservation": {func(s *spec.ClusterSpec) { slurmspec.Of(s).Reservation = "r" }, "slurm.reservation"},
		"no such time":        {func(s *spec.ClusterSpec) { slurmspec.Of(s).Begin = "yesterday" }, "slurm.begin"},
		"no such switches":    {func(s *spec.ClusterSpec) { slurmspec.Of(s).Switches = "x" }, "slurm.switches"},
		"no such job":         {func(s *spec.ClusterSpec) { slurmspec.Of(s).Dependency = "afterok:999999" }, "slurm.dependency"},
		"more memory":         {func(s *spec.ClusterSpec) { s.Workers[0].Memory = resource.MustParse("9Ti") }, "lower cpus, memory"},
		"too much memory": {func(s *spec.ClusterSpec) {
			slurmspec.Of(s).Partition, s.Workers[0].Memory = "high", resource.MustParse("3Gi")
		}, "lower the workers' memory"},
		"too long": {func(s *spec.ClusterSpec) { slurmspec.Of(s).Partition, s.Lifetime.Max = "high", units.Limit(time.Hour) }, "lower lifetime.max"},
	} {
		t.Run(name, func(t *testing.T) {
			one := 1
			s := &spec.ClusterSpec{Name: "refused", Ray: spec.Ray{Python: b.python}, Sections: slurmspec.In(&slurmspec.Section{}), Workers: []spec.WorkerGroup{{Name: "w", Replicas: &one, NodeResources: smallNode()}}}
			s.Job.Entrypoint = "true"
			test.change(s)
			_, err := l.Launch(t.Context(), s, launcher.Payload{})
			if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v (code %d)", err, launcher.ExitCode(err))
			}
			b.nothingLeft(t, "refused")
			if err := l.Validate(t.Context(), s, launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), test.want) {
				t.Errorf("what --recreate asks before it ends anything: %v", err)
			}
		})
	}
}

// cannotStart: the error of a batch script that cannot start the keeper names that cause, with the script's output and its file.
func (b *bed) cannotStart(t *testing.T) {
	shared := b.Cluster.Dir + "/shared/"
	file := func(name, text string, mode os.FileMode) string {
		if err := os.WriteFile(shared+name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return shared + name
	}
	login := b.onPython36(t)
	for name, test := range map[string]struct{ python, words string }{
		"s-missing":    {shared + "nosuch/bin/python", "No such file or directory"},
		"s-no-program": {file("s-text", "#!/bin/sh\n", 0o644), "Permission denied"},
		"s-old":        {b.python36, "is Python 3.6, and rayctl needs 3.8 or later"},
	} {
		t.Run(name, func(t *testing.T) {
			s := b.named(name, "echo never")
			s.Ray.Python = test.python
			login.begin(t, s, launcher.Payload{}).notStarted(test.words)
		})
	}
	t.Run("doctor", func(t *testing.T) { login.doctorFindsOld(t) })
	t.Run("s-no-python", b.noPython)
	t.Run("s-slow", func(t *testing.T) { // as the pull of a large image is
		s := b.named("s-slow", "echo never")
		s.Setup, s.Lifetime.Start = "sleep 1000", units.Limit(2*time.Second)
		r := b.begin(t, s, launcher.Payload{})
		r.ended(runstate.CodeStartFailed, "start-failed", "Ray was not up within lifetime.start (2s)")
		r.forgotten()
	})
}

func (r *watchedRun) notStarted(words string) {
	r.t.Helper()
	receipt := r.ended(runstate.CodeStartFailed, "start-failed", words)
	for _, part := range []string{filepath.Join(r.runDir(r.id), "slurm.out"), "correct ray.python"} {
		if !strings.Contains(receipt.Exit.Message, part) {
			r.t.Errorf("%q does not name %s", receipt.Exit.Message, part)
		}
	}
	r.forgotten()
}

// doctorFindsOld: doctor reports the same about a node's Python beforehand.
func (b *bed) doctorFindsOld(t *testing.T) {
	s := b.named("s-old", "echo never")
	s.Ray.Python = b.python36
	want := []string{`python on node1: it reports "3.6", and 3.8 or later is needed`} // Ray is looked for by a Python that can
	var found []string
	for _, c := range b.launcher().Check(t.Context(), s) {
		if !c.OK {
			found = append(found, c.Name+": "+c.Detail)
		}
	}
	if !slices.Equal(found, want) {
		t.Errorf("doctor finds %q, want %q", found, want)
	}
}

// noPython: the login node has a python3, and the nodes have none.
func (b *bed) noPython(t *testing.T) {
	bin := b.Cluster.Dir + "/shared/bin"
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"python3", "sh", "env", "sbatch", "squeue", "scancel"} {
		out, err := b.beside.Command(t.Context(), "sh", "-c", `readlink -f "$(command -v "$1")"`, "sh", name).Output()
		if err == nil {
			err = os.Symlink(strings.TrimSpace(string(out)), filepath.Join(bin, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	other := *b
	other.Env = append(slices.Clone(b.Env), "PATH="+bin)
	open := b.closePartition(t)
	s := b.named("s-no-python", "echo never")
	s.Ray.Python = ""
	r := other.begin(t, s, launcher.Payload{})
	r.until("waiting", func(s launcher.Status) bool { return s.Phase == runstate.Queued && s.Where != "" })
	if err := os.Remove(filepath.Join(bin, "python3")); err != nil {
		t.Error(err)
	}
	open()
	r.notStarted("python3: not found")
}

// overSSH: the same launcher through a real sshd, with strict host keys, and through a jump host. A cut connection heals.
func (b *bed) overSSH(t *testing.T) {
	release := b.occupy(t)
	defer release()
	for _, host := range []string{"login", "inner"} {
		t.Run(host, func(t *testing.T) {
			ssh, err := remote.NewSSH(host, nil)
			if err != nil {
				t.Fatal(err)
			}
			ssh.Config = b.Login.Config
			l := slurm.New(slurm.Config{Runner: ssh, Dir: b.Dir()})
			defer func() {
				l.Close()
				if err := ssh.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			id, err := l.Launch(t.Context(), b.named("ssh-"+host, "echo it's $(id)"), launcher.Payload{})
			if err != nil {
				t.Fatal(err)
			}
			cut := false
			watchUntil(t, l, id, func(s launcher.Status) bool {
				if !cut {
					cut = true
					b.Login.Direct.CutConnections()
					b.Login.Gateway.CutConnections()
				}
				return s.Unreachable == "" && s.Reason.Code == "Resources"
			})
			b.down(t, l, id)
			if r, err := l.Result(t.Context(), id); err != nil || r.Exit.Cause != "down" {
				t.Errorf("result: %+v, %v", r, err)
			}
			if err := l.Forget(t.Context(), id); err != nil {
				t.Error(err)
			}
			b.nothingLeft(t, "ssh-"+host)
		})
	}
}

// aWrongHostKey is never accepted.
func (b *bed) aWrongHostKey(t *testing.T) {
	ssh, err := remote.NewSSH("login", []string{"UserKnownHostsFile=" + b.Cluster.Dir + "/ssh/known_hosts.wrong"})
	if err != nil {
		t.Fatal(err)
	}
	ssh.Config = b.Login.Config
	_, err = slurm.New(slurm.Config{Runner: ssh, Dir: b.Dir()}).Launch(t.Context(), b.named("ssh-wrong", "true"), launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeUnreachable {
		t.Errorf("%v (code %d)", err, launcher.ExitCode(err))
	}
}

// controllerDown: a launch that Slurm does not answer is an error of its own and leaves nothing.
func (b *bed) controllerDown(t *testing.T) {
	if err := b.StopController(); err != nil {
		t.Fatal(err)
	}
	_, err := b.launcher().Launch(t.Context(), b.named("away", "echo never"), launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeUnreachable {
		t.Errorf("%v (code %d)", err, launcher.ExitCode(err))
	}
	if err := b.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.nothingLeft(t, "away")
}

// allNodes: one cluster over every node of the site. A run on more nodes costs no step, no file and no request to the controller more. Questions that a client asks
// now and then, and those of TestLoad, depend on the time that a run takes, and are left out.
func (b *bed) allNodes(t *testing.T) {
	files2, requests2 := b.cost(t, "two", 2)
	files4, requests4 := b.cost(t, "four", 4)
	t.Logf("files: %d; requests: %v", len(files2), requests2)
	if !slices.Equal(files2, files4) {
		t.Errorf("files on 2 nodes: %q, on 4: %q", files2, files4)
	}
	if !maps.Equal(requests2, requests4) || requests2["REQUEST_JOB_STEP_CREATE"] != 1 {
		t.Errorf("requests on 2 nodes: %v, on 4: %v", requests2, requests4)
	}
}

// cost runs a driver on so many nodes, whose names it prints; it returns the files of the run, and what the controller was asked.
func (b *bed) cost(t *testing.T, name string, nodes int) (files []string, requests map[string]int) {
	t.Helper()
	exclusive := true
	s := b.named(name, `python -c 'import ray; ray.init(log_to_driver=False, logging_level="ERROR"); print(*sorted(n["NodeManagerHostname"] for n in ray.nodes() if n["Alive"]))'`)
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Exclusive: &exclusive}})
	s.Head = spec.Head{}
	s.Workers = []spec.WorkerGroup{{Name: "w", Replicas: &nodes, NodeResources: smallNode()}}
	if err := b.ResetRequests(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := b.launcher()
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	watchUntil(t, l, id, isGone)
	if requests, err = b.Orders(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(b.runDir(id), func(path string, _ fs.DirEntry, err error) error {
		files = append(files, strings.TrimPrefix(path, b.runDir(id)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if oc, err := launcher.Attach(t.Context(), l, id, launcher.RunOptions{Stdout: &out}); err != nil || oc.Receipt.Exit.Code != 0 || len(slices.Compact(strings.Fields(out.String()))) != nodes {
		t.Errorf("output %q, want %d names; %+v, %v\n%s", out.String(), nodes, oc, err, b.story(t, id))
	}
	b.removed(t, l, id)
	return files, requests
}

// work is on one cluster of two unlike nodes: commands on each, the sizes given to Ray, connections to a node, and a worker that dies, which is
// reported by name while the driver goes on.
func (b *bed) work(t *testing.T) {
	s := b.twoGroups()
	s.Name, s.Job.Entrypoint = "work", "sleep 600"
	l := b.launcher()
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.down(t, l, id)
	running := func(st launcher.Status) bool { return st.Job != nil && st.Job.State == runstate.JobRunning }
	st := watchUntil(t, l, id, running)
	if len(st.Nodes) != 2 || st.Nodes[0].Host == st.Nodes[1].Host {
		t.Errorf("nodes: %+v", st.Nodes)
	}
	for _, node := range st.Nodes {
		var out bytes.Buffer
		code, err := l.Exec(t.Context(), id, launcher.ExecRequest{Node: node.Name, Command: []string{"sh", "-c", `hostname; echo "it's $1"; exit 5`, "sh", "$(id)"}, Stdout: &out})
		if err != nil || code != 5 || out.String() != node.Host+"\nit's $(id)\n" {
			t.Errorf("exec on %s: %q, code %d, %v", node.Name, out.String(), code, err)
		}
	}
	var out, said bytes.Buffer
	program := `import ray; ray.init(logging_level="ERROR"); print(sorted((n["NodeName"], int(n["Resources"]["CPU"]), int(n["Resources"]["memory"]) >> 20) for n in ray.nodes()))`
	if _, err := l.Exec(t.Context(), id, launcher.ExecRequest{Command: []string{"python", "-c", program}, Stdout: &out, Stderr: &said}); err != nil {
		t.Error(err)
	}
	if want := "[('a-0', 1, 1024), ('b-0', 2, 1024)]\n"; out.String() != want {
		t.Errorf("Ray has %q, want %q; %s", out.String(), want, said.String())
	}
	b.execs(t, id)
	b.killRaylet(t, st.Nodes[1].Host)
	told := watchUntil(t, l, id, func(st launcher.Status) bool {
		for _, e := range st.Timeline {
			if e.Kind == "node" && e.Code == "b-0" {
				return true
			}
		}
		return false
	})
	if !running(told) || told.Phase != runstate.Ready {
		t.Errorf("the driver does not go on: %s, %+v", told.Phase, told.Job)
	}
	// Its supervisor may have started it again before Ray saw its loss: it is another node of Ray then.
	if before, now := st.Nodes[1], told.Nodes[1]; told.Nodes[0].State != runstate.NodeAlive || now.State != runstate.NodeDead && now.NodeID == before.NodeID {
		t.Errorf("states of the nodes: %+v", told.Nodes)
	}
}

// execs: on a terminal all keys go to the command, also Ctrl-C; without one, the command is stopped when its context ends.
func (b *bed) execs(t *testing.T, id launcher.ID) {
	t.Run("terminal", func(t *testing.T) { terminaltest.OnTerminal(t, b.launcher(), id) })
	t.Run("terminal by ssh", func(t *testing.T) { terminaltest.OnTerminal(t, b.ssh(t), id) })
	t.Run("asked to end", func(t *testing.T) { askedToEnd(t, b.launcher(), id) })
}

func askedToEnd(t *testing.T, l launcher.Launcher, id launcher.ID) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() {
		defer in.Close()
		script := `trap "echo asked; exit 0" INT; echo ready; while :; do sleep 0.1; done`
		_, err := l.Exec(ctx, id, launcher.ExecRequest{Command: []string{"sh", "-c", script}, Stdout: in, Stderr: in})
		t.Log(err)
	}()
	terminaltest.ReadUntil(t, out, "ready")
	cancel(launcher.Interruption{Signal: syscall.SIGTERM})
	terminaltest.ReadUntil(t, out, "asked")
	if _, err := io.Copy(io.Discard, out); err != nil { // its end
		t.Error(err)
	}
}

// killRaylet kills the one raylet on a node.
func (b *bed) killRaylet(t *testing.T, host string) {
	t.Helper()
	all, err := b.Processes(host)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		program, _, _ := strings.Cut(p.Command, " ")
		if strings.HasSuffix(program, "/raylet/raylet") {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Error("there is no raylet on " + host)
}

// preempted: a job comes back as the next attempt, with the same output directory and the cause in its environment, when somebody queues it again, when Slurm has
// warned it, which gives the driver its grace, and when a job of higher priority takes the nodes. There the run's status is waiting, and it goes on when it has
// nodes again; a client that begins to watch only then gets the output of all attempts in their order.
func (b *bed) preempted(t *testing.T) {
	g := b.waitFile(t)
	s := b.named("yields", `[ $RAYCTL_ATTEMPT != 2 ] || trap 'echo saving; sleep 2; echo saved; exit 0' TERM
echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON in $RAYCTL_OUTPUT_DIR
case $RAYCTL_ATTEMPT in
2) sleep 600 & wait;;
1|3) exec sleep 600;;
esac
`+g.wait())
	s.Lifetime.Queue, s.Lifetime.Max = units.Limit(time.Hour), units.Limit(10*time.Hour) // the end is far: a warning is of preemption
	s.Job.Grace = durationPtr(time.Minute)
	output := filepath.Join(b.runDir("yields"), "output")
	want := []string{"attempt 1 because in " + output}
	for _, line := range []string{"attempt 2", "saving", "saved", "attempt 3", "attempt 4"} {
		if strings.HasPrefix(line, "attempt") {
			line += " because preempted in " + output
		}
		want = append(want, line)
	}
	r := b.begin(t, s, launcher.Payload{})
	driving := func(attempt int, line string) (job string) {
		st := r.until("running", func(s launcher.Status) bool { return s.Attempt == attempt && jobRuns(s) && s.Phase == runstate.Ready })
		b.copied(t, r.id, line+"\n")
		return strings.TrimPrefix(st.Where, "job ")
	}
	if _, err := b.Slurm(t.Context(), "scontrol", "requeue", driving(1, want[0])); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Slurm(t.Context(), "scancel", "--batch", "--signal=USR1", driving(2, want[1])); err != nil {
		t.Fatal(err)
	}
	driving(3, want[4])
	release := b.preempt(t)
	r.until("waiting again", waitsAgain(4))
	listed, err := r.l.List(t.Context(), launcher.Selector{Names: []string{"yields"}})
	if err != nil || len(listed) != 1 || !waitsAgain(4)(listed[0]) {
		t.Errorf("listed: %+v, %v", listed, err)
	}
	release()
	late := bufio.NewScanner(b.attach(t, r.id))
	for _, line := range want {
		if !late.Scan() || late.Text() != line {
			t.Errorf("who came late sees %q, want %q", late.Text(), line)
		}
	}
	g.create()
	receipt := r.ended(0, "succeeded", "")
	var causes []string
	for _, a := range receipt.Attempts {
		causes = append(causes, a.Cause)
	}
	if all := strings.Join(want, "\n") + "\n"; r.out.String() != all || !slices.Equal(causes, []string{"preempted", "preempted", "preempted", "succeeded"}) {
		t.Errorf("output %q, want %q; attempts %+v\n%s", r.out.String(), all, receipt.Attempts, b.story(t, r.id))
	}
	r.forgotten()
}

// preempt takes all nodes in the partition that preempts ours, until release.
func (b *bed) preempt(t *testing.T) (release func()) {
	t.Helper()
	id, err := b.Submit(t.Context(), "sleep 1000", "--partition=high", "--exclusive", "--nodes=4")
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := b.Slurm(t.Context(), "scancel", id); err != nil {
			t.Error(err)
		}
	}
}

// waitsAgain is a run whose job waits for its next attempt.
func waitsAgain(attempt int) func(launcher.Status) bool {
	return func(s launcher.Status) bool {
		return s.Phase == runstate.Queued && s.Attempt == attempt && s.Reason.Message != ""
	}
}

// attach is the output that another client sees.
func (b *bed) attach(t *testing.T, id launcher.ID) io.Reader {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	out, in := io.Pipe()
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		_ = out.Close() // never fails
		<-done
	})
	go func() {
		defer close(done)
		_, err := launcher.Attach(ctx, b.launcher(), id, launcher.RunOptions{Stdout: in})
		_ = in.CloseWithError(err) // never fails
	}()
	return out
}

// endedBetween: who waits for the next attempt ends as any that waits, by `down` and by its job's being cancelled.
func (b *bed) endedBetween(t *testing.T) {
	ended, cancelled := b.begin(t, b.named("between-down", attempts), launcher.Payload{}), b.begin(t, b.named("between-scancel", attempts), launcher.Payload{})
	for _, r := range []*watchedRun{ended, cancelled} {
		r.until("running", jobRuns)
	}
	release := b.preempt(t)
	defer release()
	for _, r := range []*watchedRun{ended, cancelled} {
		r.until("waiting again", waitsAgain(2))
	}
	b.scancel(t, cancelled.id)
	b.down(t, ended.l, ended.id)
	ended.ended(runstate.CodeInterrupted, "down", "")
	cancelled.ended(runstate.CodeInterrupted, "interrupted", "")
	ended.forgotten()
	cancelled.forgotten()
}

// attempts prints the attempt's number and cause; only the first attempt takes long.
const attempts = `echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; [ $RAYCTL_ATTEMPT != 1 ] || exec sleep 600`

// timeLimit: Slurm's own limit of the job is known to the driver from the beginning, becomes Ray's drain and gives the driver its grace, and the next
// attempt goes on.
func (b *bed) timeLimit(t *testing.T) {
	s := b.named("limited", `echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; [ $RAYCTL_ATTEMPT != 1 ] || exec python -c `+shellescape.Quote(conformance.WarnedProgram))
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{ExtraArgs: []string{"--time=7"}}}) // Slurm warns a minute and the grace before, and up to a minute earlier; a start of Ray may take minutes
	s.Job.Restarts.TimeLimit, s.Job.Grace = 1, durationPtr(30*time.Second)
	r := b.begin(t, s, launcher.Payload{})
	r.until("running", jobRuns)
	text, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name=limited", "--format=%e")
	if err != nil {
		t.Fatal(err)
	}
	end, err := time.ParseInLocation("2006-01-02T15:04:05", strings.TrimSpace(text), time.Local)
	if err != nil {
		t.Fatal(err)
	}
	receipt := r.ended(0, "succeeded", "")
	want := fmt.Sprintf("attempt 1 because\nends %d %[1]d\nwarned of 30 s\nsaved\nattempt 2 because time-limit\n", end.Add(-90*time.Second).Unix())
	if r.out.String() != want || len(receipt.Attempts) != 2 || receipt.Attempts[0].Cause != "time-limit" {
		t.Errorf("output %q, want %q; attempts %+v\n%s", r.out.String(), want, receipt.Attempts, b.story(t, r.id))
	}
	r.forgotten()
}
