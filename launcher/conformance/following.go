package conformance

import (
	"bytes"
	"crypto/sha256"
	"io"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
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

// detach detaches after the commit; a later client must find status, output and result.
func detach(t *testing.T, s *suite) {
	sp := s.spec(t, "")
	told := "/tmp/" + sp.Name + ".told" // on the head's node, where the driver runs
	sp.Job.Entrypoint = "echo one; until rm " + told + " 2> /dev/null; do sleep 0.3; done; sleep 3; echo two; exit 4"
	oc, err := launcher.Run(s.context(t), s.l, sp, payloadOf(sp), launcher.RunOptions{Detach: true})
	if err != nil || !oc.Detached {
		t.Fatalf("detach: %+v, %v", oc, err)
	}
	s.untilRunning(t, oc.ID)
	listed, err := s.l.List(s.context(t), launcher.Selector{Names: []string{sp.Name}})
	if err != nil || len(listed) != 1 || !listed[0].Ours {
		t.Errorf("list while it runs: %v, %v", listed, err)
	}
	s.agree(t, oc.ID)
	_, err = s.l.Result(s.context(t), oc.ID)
	wantCode(t, err, launcher.ExitCode(err), launcher.ErrNotEnded)
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
