package local_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// ofRank is what one rank has written.
func ofRank(t *testing.T, out string, rank int, prepares bool) string {
	t.Helper()
	var got bytes.Buffer
	if _, err := driverio.NewRankOutput(&got, rank, prepares).Write([]byte(out)); err != nil {
		t.Fatal(err)
	}
	return got.String()
}

// TestRanks: four ranks on two of the three nodes, not on the head's and not on that of another group; what each of them finds; and whose MASTER_PORT is.
func TestRanks(t *testing.T) {
	const hostile = `$() 'it"s' %24 \n $(id) ü`
	state := t.TempDir()
	l := at(t, state)
	s := oneNode(t, "ranks", `printf '%s %s\n' "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK/$RAYCTL_NODES $OMP_NUM_THREADS" '`+strings.ReplaceAll(hostile, "'", `'\''`)+`'
printf '%s\n' "$VALUE" "$RAYCTL_ATTEMPT" "$(cat "$RAYCTL_HOSTFILE" | tr '\n' ' ')" "$MASTER_ADDR"
exec python bind.py`)
	s.Job.Launch = spec.Launch{PerNode: 2, Groups: []string{"trainer"}}
	s.Job.Env = map[string]string{"VALUE": hostile, "RANK": "not this"}
	s.Job.Prepare = `echo "[rank 0] prepares $RANK"; touch prepared`
	s.Job.Cwd = t.TempDir()
	s.Head = spec.Head{On: "head"}
	s.Workers = []spec.WorkerGroup{{Name: "other", NodeResources: spec.NodeResources{CPUs: 1}}, {Name: "trainer", Replicas: new(int), NodeResources: spec.NodeResources{CPUs: 4}}}
	*s.Workers[1].Replicas = 2
	const bind = `import errno, os, socket
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
assert os.path.exists("prepared")
with socket.socket() as neighbour:
    try:
        neighbour.bind(address)
    except OSError as error:
        print(errno.errorcode[error.errno])
if os.environ["RANK"] == "0":
    socket.create_server(address)
    print("serves")
`
	if err := os.WriteFile(s.Job.Cwd+"/bind.py", []byte(bind), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminate(t, l, "ranks") })
	var out bytes.Buffer
	oc, err := launcher.Run(within(t), l, s, launcher.Payload{}, launcher.RunOptions{Stdout: &out})
	if err != nil || oc.Receipt.Exit.Code != 0 {
		t.Fatalf("%+v, %v, printed %q", oc, err, out.String())
	}
	if !strings.HasPrefix(out.String(), "==> job.prepare <==\n[rank 0] prepares not this\n==> driver <==\n") {
		t.Errorf("job.prepare runs once, before: %q", out.String())
	}
	address := regexp.MustCompile(`slots=4 \n([0-9.]+)\n`).FindStringSubmatch(ofRank(t, out.String(), 0, true))
	if address == nil {
		t.Fatalf("no address: %q", out.String())
	}
	for rank := range 4 {
		want := fmt.Sprintf("%d/4 %d/2 %d/2 2 %s\n%s\n1\n%s slots=4 \n%s\nEADDRINUSE\n", rank, rank%2, rank/2, hostile, hostile, address[1], address[1])
		want += map[int]string{0: "serves\n"}[rank]
		if got := ofRank(t, out.String(), rank, true); got != want {
			t.Errorf("rank %d: %q, want %q", rank, got, want)
		}
	}
	if strings.Contains(out.String(), "[rank 4]") {
		t.Errorf("%q", out.String())
	}
}

// ends has a way in which ranks end for each attempt.
const ends = `trap '' TERM
left() { (setsid sleep 3600 & echo $! >> left); }
case $RAYCTL_ATTEMPT.$RANK in
1.1) left; kill -KILL $$;;
2.0) exit 5;;
3.0) exec sleep 3600 >&- 2>&-;;
3.1) exit 6;;
4.1) kill -KILL $(ps -o ppid= -p $(ps -o ppid= -p $PPID));;
5.0) head -c 3000000 /dev/zero | tr '\0' x; while read pid; do ! kill -0 $pid 2> /dev/null || exit 9; done < left;;
5.1) printf 'no line end';;
*) exec sleep 3600;;
esac
`

// TestRanksEnd: ranks that are killed, hang past the grace, close their output, or lose the actor that runs them; and one that writes a long line. Nothing that they leave running stays.
func TestRanksEnd(t *testing.T) {
	state := t.TempDir()
	l := at(t, state)
	s := oneNode(t, "ends", ends)
	grace := units.Duration(time.Second)
	s.Job.Launch, s.Job.Grace, s.Job.Cwd, s.Job.Restarts.Driver = spec.Launch{PerNode: 2}, &grace, t.TempDir(), 4
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: spec.NodeResources{CPUs: 2}}}
	t.Cleanup(func() { terminate(t, l, "ends") })
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // it is five attempts
	defer cancel()
	var out bytes.Buffer
	oc, err := launcher.Run(ctx, l, s, launcher.Payload{}, launcher.RunOptions{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range oc.Receipt.Attempts {
		got = append(got, fmt.Sprintf("%s %d: %s", a.Cause, *a.ExitCode, strings.ReplaceAll(a.Message, " ("+host+")", "")))
	}
	want := []string{
		"driver-failed 137: rank 1 on node w-0 was killed by SIGKILL",
		"driver-failed 5: rank 0 on node w-0 exited with 5",
		"driver-failed 6: rank 1 on node w-0 exited with 6",
		"driver-failed 1: ranks 0 to 1 on node w-0 ended: Ray ended the process that runs them: ",
		"succeeded 0: the driver succeeded",
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) || oc.Receipt.Exit.Code != 0 {
		t.Errorf("%q, want %q; printed %q", got, want, out.String()[:min(2000, out.Len())])
	}
	if line := ofRank(t, out.String(), 0, false); line != strings.Repeat("x", 3000000) {
		t.Errorf("a long line: %d bytes", len(line))
	}
	if line := ofRank(t, out.String(), 1, false); line != "no line end" {
		t.Errorf("rank 1: %q", line)
	}
}

// warned is a rank that saves on SIGTERM. In the first attempt rank 0 has Ray's own command say that the node of rank 1 is going to be taken away; in the second one
// it has Ray stop the job.
const warned = `trap 'echo "saves in $RAYCTL_ATTEMPT, $RAYCTL_RESTART_REASON"; exit 0' TERM
touch $RAYCTL_ATTEMPT.$RANK
test $RANK != 0 || { until test -e $RAYCTL_ATTEMPT.1; do sleep 0.1; done; (python warn.py > warn.log 2>&1 || test $? = 143 || cat warn.log) & }
while :; do sleep 0.1; done
`

const warn = `import os, subprocess, ray
from ray.job_submission import JobSubmissionClient
dashboard = ray.init(log_to_driver=False).address_info["webui_url"]
if os.environ["RAYCTL_ATTEMPT"] == "1":
    (node,) = [node["NodeID"] for node in ray.nodes() if node["NodeName"] == "w-1"]
    subprocess.run(["ray", "drain-node", "--address", os.environ["RAY_ADDRESS"], "--node-id", node, "--reason", "DRAIN_NODE_REASON_PREEMPTION",
        "--reason-message", "test", "--deadline-remaining-seconds", "3600"], check=True)
else:
    JobSubmissionClient("http://" + dashboard).stop_job(os.environ["RAYCTL_SUBMISSION_ID"])
`

// TestRanksWarned: a node that is going to be taken away, and a job that is stopped, end all ranks, each with the time to save. The next attempt follows a node that is taken away.
func TestRanksWarned(t *testing.T) {
	state := t.TempDir()
	l := at(t, state)
	s := oneNode(t, "warned", warned)
	s.Job.Launch, s.Job.Cwd = spec.Launch{PerNode: 1}, t.TempDir()
	s.Workers = []spec.WorkerGroup{{Name: "w", Replicas: new(int), NodeResources: spec.NodeResources{CPUs: 1}}}
	*s.Workers[0].Replicas = 2
	if err := os.WriteFile(s.Job.Cwd+"/warn.py", []byte(warn), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminate(t, l, "warned") })
	var out bytes.Buffer
	oc, err := launcher.Run(within(t), l, s, launcher.Payload{}, launcher.RunOptions{Stdout: &out})
	if err != nil {
		t.Fatalf("%v, printed %q", err, out.String())
	}
	a := oc.Receipt.Attempts
	if len(a) != 2 || a[0].Cause != runstate.CausePreempted || a[0].Message != "rank 1 on node w-1 ended: the node is being taken away" || a[1].Cause != runstate.CauseInterrupted {
		t.Errorf("%+v", a)
	}
	for rank := range 2 {
		got := strings.ReplaceAll(ofRank(t, out.String(), rank, false), "Terminated\n", "") // some shells say it of the sleep that ends with them
		if got != "saves in 1, \nsaves in 2, preempted\n" {
			t.Errorf("rank %d: %q", rank, got)
		}
	}
}

// TestRanksOutOfMemory: Ray's memory monitor kills what runs the rank of one node. That is what the end says, also though rank 0 fails at once because its connection breaks. The monitor
// finds the node's memory full whatever is used, at the node's start and then the period after it, when the ranks run.
func TestRanksOutOfMemory(t *testing.T) {
	state := t.TempDir()
	l := at(t, state)
	s := oneNode(t, "full", "exec python meet.py")
	s.Job.Launch, s.Job.Cwd = spec.Launch{PerNode: 1}, t.TempDir()
	s.Head = spec.Head{On: "head"}
	s.Workers = []spec.WorkerGroup{{Name: "a", NodeResources: spec.NodeResources{CPUs: 1}}, {Name: "b", NodeResources: spec.NodeResources{CPUs: 1}}}
	s.Workers[1].Env = map[string]string{"RAY_memory_usage_threshold": "0.001", "RAY_memory_monitor_refresh_ms": "30000"}
	const meet = `import os, socket, time
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    other = socket.create_server(address).accept()[0]
    print("met", flush=True)
    other.recv(1)
    os._exit(3)
while True:
    try:
        other = socket.create_connection(address)
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
other.recv(1)
`
	if err := os.WriteFile(s.Job.Cwd+"/meet.py", []byte(meet), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminate(t, l, "full") })
	var out bytes.Buffer
	oc, err := launcher.Run(within(t), l, s, launcher.Payload{}, launcher.RunOptions{Stdout: &out})
	if err != nil {
		t.Fatalf("%v, printed %q", err, out.String())
	}
	e := oc.Receipt.Exit
	if want := regexp.MustCompile(`^rank 1 on node b-0 was killed by Ray, because the node's memory was nearly full: \S+ of \S+ were used `); e.Code != 137 || !want.MatchString(e.Message) {
		t.Errorf("exit %+v", e)
	}
	if out.String() != "[rank 0] met\n"+e.Message+"\n" {
		t.Errorf("printed %q", out.String())
	}
}
