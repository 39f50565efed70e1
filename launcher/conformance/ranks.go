package conformance

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// loseNode is a Python function that ends the raylet below which it runs, and so its node.
const loseNode = `def lose_node():
    pid = os.getpid()
    while open("/proc/%d/comm" % pid).read() != "raylet\n":
        pid = int(open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[1])
    os.kill(pid, signal.SIGKILL)
    signal.pause()
`

// ranksProgram is one rank. All meet at MASTER_ADDR, where rank 0 serves. In the first attempt the last one then loses its node, and rank 0 fails because its connection breaks,
// long before Ray knows of the node. In the second one the last one fails, and leaves something running, while the others would go on. They print when SIGTERM reaches them.
const ranksProgram = payloadHere + `import signal, socket, subprocess, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert os.environ["RAYCTL_NODES"] == "2" and os.environ["NODE_RANK"] == str(rank) and os.environ["LOCAL_RANK"] == "0" and size == 2
assert sum(int(line.rpartition("=")[2]) for line in open(os.environ["RAYCTL_HOSTFILE"])) == size
assert os.path.exists("lines.py"), os.getcwd()
def end(*_):
    os.write(1, b"\nended")
    os._exit(0)
` + loseNode + `again = os.environ["RAYCTL_ATTEMPT"] == "2"
if again:
    signal.signal(signal.SIGTERM, end)
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if again:
    assert os.environ["RAYCTL_RESTART_REASON"] == "lost"
    os.write(1, b"%d\r" % rank + bytes(range(256)) * 400)
if rank == 0:
    server = socket.create_server(address)
    others = [server.accept()[0] for _ in range(size - 1)]
    met = sum(other.recv(1)[0] for other in others)
    if not again:
        sys.exit(3 + len(others[0].recv(1)))
    os.write(1, b"\nmet %d" % met)
    for other in others:
        other.sendall(b"!")
else:
    while True:
        try:
            me = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    me.sendall(bytes([rank]))
    if not again:
        lose_node()
    me.recv(1)
if rank == size - 1:
    subprocess.Popen(["sleep", "3600"], start_new_session=True)
    sys.exit(7)
while True:
    signal.pause()
`

// ranks: a command runs on every required node, also where an elastic group has more. A lost node is the cluster's loss and not the job's, and the next attempt follows. Each rank's
// bytes come once and in order, the first failure ends all, and its code is the run's.
func ranks(t *testing.T, s *suite) {
	sp := s.named(t, s.TwoGroups(), "exec "+python(ranksProgram))
	sp.Job.Launch = spec.Launch{PerNode: 1, Groups: []string{"a", "b"}}
	if s.Elastic {
		least, most := 1, 2
		b := &sp.Workers[1]
		b.Replicas, b.MinReplicas, b.MaxReplicas = &most, &least, &most
	}
	sp.Job.Restarts.NodeFailure = 1
	oc, out := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "driver", "driver-failed", 7)
	if all := oc.Receipt.Attempts; len(all) != 2 || all[0].Cause != runstate.CauseLost || !strings.HasPrefix(all[0].Message, "rank 1 on node ") || !strings.HasSuffix(all[0].Message, " ended: the node was lost") {
		t.Errorf("the first attempt loses the node of rank 1: %s", mustJSON(t, all))
	}
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	record, err := s.l.Result(s.context(t), oc.ID)
	if err != nil || record.Job == nil || !driverio.HasRanks(record.Job.Entrypoint) {
		t.Fatalf("by its record it had no ranks, and `rayctl logs --rank` refuses: %v, %s", err, mustJSON(t, record))
	}
	for rank := range 2 {
		want := fmt.Sprintf("%d\r%s", rank, strings.Repeat(string(every), 400)) + map[int]string{0: "\nmet 1\nended"}[rank]
		log, err := record.OpenLog(s.context(t), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		for where, from := range map[string]io.Reader{"shown": strings.NewReader(out), "in the record": log} {
			var got bytes.Buffer
			if _, err := io.Copy(driverio.NewRankOutput(&got, rank, false), from); err != nil {
				t.Fatal(err)
			}
			if got.String() != want {
				t.Errorf("rank %d, %s: %q, want %q", rank, where, short(got.Bytes()), short([]byte(want)))
			}
		}
	}
	last := out[strings.LastIndex(strings.TrimSuffix(out, "\n"), "\n")+1:]
	if !strings.HasPrefix(last, "rank 1 on node ") || !strings.HasSuffix(last, " exited with 7\n") || oc.Receipt.Exit.Message+"\n" != last {
		t.Errorf("the last line is %q, the receipt says %q; all of it: %q", last, oc.Receipt.Exit.Message, short([]byte(out)))
	}
	if again := s.shown(t, oc.ID); again != out {
		t.Errorf("shown again: %q, first: %q", short([]byte(again)), short([]byte(out)))
	}
}
