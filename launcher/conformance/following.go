package conformance

import (
	"bytes"
	"crypto/sha256"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// outputProgram prints the difficult cases of a followed log: CRLF, bytes that are not text, a line of 10 MB without an end, a
// million lines, and a last line without newline.
const outputProgram = `import sys
w = sys.stdout.buffer.write
w(b"crlf\r\nalone\rcr\n")
w(bytes(range(256)) * 4 + b"\n")
w(b"x" * 10_000_000 + b"\n")
for i in range(1_000_000):
    w(b"line %d\n" % i)
w(b"no newline at the end")
`

func wantOutput() []byte {
	var b bytes.Buffer
	b.WriteString("crlf\r\nalone\rcr\n")
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	b.Write(bytes.Repeat(all, 4))
	b.WriteString("\n" + strings.Repeat("x", 10_000_000) + "\n")
	for i := range 1_000_000 {
		b.WriteString("line ")
		b.WriteString(itoa(i))
		b.WriteByte('\n')
	}
	b.WriteString("no newline at the end")
	return b.Bytes()
}

func sameBytes(t *testing.T, what string, got []byte) {
	t.Helper()
	want := wantOutput()
	if sha256.Sum256(got) == sha256.Sum256(want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Errorf("%s: %d bytes, want %d; they differ from byte %d on: %q", what, len(got), len(want), at, short(got[at:]))
}

// savedLog reads the whole saved output through launcher.Attach, as `rayctl logs` does for a run that has ended.
func (s *suite) savedLog(t *testing.T, id launcher.ID) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := launcher.Attach(s.context(t), s.l, id, launcher.RunOptions{Stdout: &out}); err != nil {
		t.Fatalf("logs of an ended run: %v", err)
	}
	return out.Bytes()
}

// hopelessProgram has a task that no node can ever run.
const hopelessProgram = "import ray; ray.init(); ray.get(ray.remote(num_gpus=1000)(lambda: 1).remote())"

// detach detaches after the commit; a later client must find status, what the driver waits for without hope, output and result.
func detach(t *testing.T, s *suite) {
	sp := s.spec(t, "")
	told := "/tmp/" + sp.Name + ".told" // on the head's node, where the driver runs
	sp.Job.Entrypoint = "echo one; " + python(hopelessProgram) + " > /dev/null 2>&1 & until rm " + told + " 2> /dev/null; do sleep 0.3; done; kill $!; sleep 3; echo two; exit 4"
	oc, err := launcher.Run(s.context(t), s.l, sp, payloadOf(sp), launcher.RunOptions{Detach: true})
	if err != nil || !oc.Detached {
		t.Fatalf("detach: %+v, %v", oc, err)
	}
	s.untilRunning(t, oc.ID)
	listed, err := s.l.List(s.context(t), launcher.Selector{Names: []string{sp.Name}})
	if err != nil || len(listed) != 1 || !listed[0].Ours {
		t.Errorf("list while it runs: %v, %v", listed, err)
	}
	_, err = s.l.Result(s.context(t), oc.ID)
	wantCode(t, err, launcher.ExitCode(err), launcher.ErrNotEnded)
	s.wantHopeless(t, oc.ID)
	if code, err := s.l.Exec(s.context(t), oc.ID, launcher.ExecRequest{Command: []string{"touch", told}, Stdout: io.Discard, Stderr: io.Discard}); err != nil || code != 0 {
		t.Fatalf("exec: code %d, %v", code, err)
	}
	if got := string(s.savedLog(t, oc.ID)); got != "one\ntwo\n" { // attached while it still runs
		t.Errorf("output %q", got)
	}
	r := s.untilGone(t, oc.ID)
	wantExit(t, *r.Exit, "driver", "driver-failed", 4)
	if r.Exit.Retryable {
		t.Error("a driver's own failure is not retryable")
	}
	if got := string(s.savedLog(t, oc.ID)); got != "one\ntwo\n" {
		t.Errorf("output after the end %q", got)
	}
	if all, err := s.l.List(s.context(t), launcher.Selector{Names: []string{sp.Name}, All: true}); err != nil || len(all) != 1 {
		t.Errorf("the record is not listed: %v, %v", all, err)
	}
	if live, err := s.l.List(s.context(t), launcher.Selector{Names: []string{sp.Name}}); err != nil || len(live) != 0 {
		t.Errorf("an ended run is listed as alive: %v, %v", live, err)
	}
}

// wantHopeless checks that the status says what hopelessProgram waits for, and the timeline once, while the run goes on.
func (s *suite) wantHopeless(t *testing.T, id launcher.ID) {
	t.Helper()
	const waits = "tasks or actors wait for a node with 1 CPU, 1000 GPUs, and there is none (a node has at most "
	st := s.until(t, id, "said to wait without hope", func(st launcher.Status) bool { return st.Reason.Code == runstate.ReasonUnmet })
	noted := slices.DeleteFunc(slices.Clone(st.Timeline), func(e runstate.Event) bool { return !strings.HasPrefix(e.Message, waits) })
	if !strings.HasPrefix(st.Reason.Message, waits) || len(noted) != 1 || st.Phase != runstate.Ready || st.Job.State != runstate.JobRunning {
		t.Errorf("phase %s, job %s, reason %+v, noted %+v", st.Phase, st.Job.State, st.Reason, noted)
	}
}
