package conformance

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/spec"
)

// ranksProgram is one rank. All meet at MASTER_ADDR, where rank 0 serves; then the last one fails while the others would go on. They print when SIGTERM reaches them.
const ranksProgram = `import os, signal, socket, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert os.environ["RAYCTL_NODES"] == "2" and os.environ["NODE_RANK"] == str(rank) and os.environ["LOCAL_RANK"] == "0" and size == 2
assert sum(int(line.rpartition("=")[2]) for line in open(os.environ["RAYCTL_HOSTFILE"])) == size
assert os.path.exists("lines.py"), os.getcwd()
def end(*_):
    os.write(1, b"\nended")
    os._exit(0)
signal.signal(signal.SIGTERM, end)
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
os.write(1, b"%d\r" % rank + bytes(range(256)) * 400)
if rank == 0:
    server = socket.create_server(address)
    others = [server.accept()[0] for _ in range(size - 1)]
    met = sum(other.recv(1)[0] for other in others)
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
    me.recv(1)
if rank == size - 1:
    sys.exit(7)
while True:
    signal.pause()
`

// ranks: a command runs on every required node, also where an elastic group has more. Each rank's bytes come once and in order, the first failure ends all, and its code is the run's.
func ranks(t *testing.T, s *suite) {
	sp := s.named(t, s.TwoGroups(), "exec "+python(ranksProgram))
	sp.Job.Launch = spec.Launch{PerNode: 1, Groups: []string{"a", "b"}}
	if s.Elastic {
		least, most := 1, 2
		b := &sp.Workers[1]
		b.Replicas, b.MinReplicas, b.MaxReplicas = &most, &least, &most
	}
	oc, out := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "driver", "driver-failed", 7)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for rank := range 2 {
		var got bytes.Buffer
		if _, err := driverio.NewRankOutput(&got, rank, false).Write([]byte(out)); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%d\r%s", rank, strings.Repeat(string(every), 400)) + map[int]string{0: "\nmet 1\nended"}[rank]
		if got.String() != want {
			t.Errorf("rank %d: %q, want %q", rank, short(got.Bytes()), short([]byte(want)))
		}
	}
	if last := out[strings.LastIndex(strings.TrimSuffix(out, "\n"), "\n")+1:]; !strings.HasPrefix(last, "rank 1 on node ") || !strings.HasSuffix(last, " exited with 7\n") {
		t.Errorf("the last line is %q", last)
	}
	if again := s.shown(t, oc.ID); again != out {
		t.Errorf("shown again: %q, first: %q", short([]byte(again)), short([]byte(out)))
	}
}
