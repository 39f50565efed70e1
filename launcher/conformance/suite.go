package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// suite is a Config and the launcher under test.
type suite struct {
	Config
	l       launcher.Launcher
	payload string // the directories that every launch uses
	plain   bool   // every cluster runs with ray.fastStart: false
}

// spec returns the smallest spec with a name of its own and an entrypoint. At the end of the test it checks that nothing is left.
func (s *suite) spec(t *testing.T, entrypoint string) *spec.ClusterSpec {
	t.Helper()
	return s.named(t, s.Spec(), entrypoint)
}

// backstop ends clusters that a killed test binary leaves behind.
const backstop = 30 * time.Minute

func (s *suite) named(t *testing.T, sp *spec.ClusterSpec, entrypoint string) *spec.ClusterSpec {
	t.Helper()
	sp.Name = "c-" + randomHex(4)
	sp.Job.Entrypoint = entrypoint
	sp.Lifetime.Max = units.Limit(backstop)
	if s.plain {
		sp.Ray.FastStart = new(bool)
	}
	s.carry(sp)
	s.leakCheck(t, launcher.ID(sp.Name))
	return sp
}

// leakCheck ends the cluster after the test, passed or failed, and asks the substrate what is left. For a failed test it logs
// diagnostics of the cluster.
func (s *suite) leakCheck(t *testing.T, id launcher.ID) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
		defer cancel()
		if t.Failed() {
			s.tell(ctx, t, id)
		}
		if err := s.l.Terminate(ctx, id, launcher.End{Cause: "down", Now: true}); err != nil {
			t.Errorf("terminate %s: %v", id, err)
		}
		if left := s.Allocated(t, id); len(left) > 0 {
			t.Errorf("left behind by %s:\n%s", id, strings.Join(left, "\n"))
		}
	})
}

func (s *suite) tell(ctx context.Context, t *testing.T, id launcher.ID) {
	all, err := s.l.List(ctx, launcher.Selector{Names: []string{string(id)}, All: true})
	if err != nil {
		t.Logf("list: %v", err)
	}
	for _, st := range all {
		t.Logf("%s: %s", id, mustJSON(t, st))
	}
	if s.Story != nil {
		t.Logf("%s", s.Story(t, id))
	}
}

// context bounds one scenario.
func (s *suite) context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	t.Cleanup(cancel)
	return ctx
}

// run runs a spec with launcher.Run and returns the driver's output.
func (s *suite) run(t *testing.T, sp *spec.ClusterSpec, o launcher.RunOptions) (*launcher.Outcome, string) {
	t.Helper()
	return s.runWith(t, sp, payloadOf(sp), o)
}

func (s *suite) runWith(t *testing.T, sp *spec.ClusterSpec, p launcher.Payload, o launcher.RunOptions) (*launcher.Outcome, string) {
	t.Helper()
	var out bytes.Buffer
	o.Stdout = &out
	oc, err := launcher.Run(s.context(t), s.l, sp, p, o)
	if err != nil {
		t.Fatalf("run: %v\nprinted: %s", err, short(out.Bytes()))
	}
	s.agree(t, oc.ID)
	return oc, out.String()
}

// launch commits a cluster and does not watch it.
func (s *suite) launch(t *testing.T, sp *spec.ClusterSpec) launcher.ID {
	t.Helper()
	id, err := s.l.Launch(s.context(t), sp, payloadOf(sp))
	if err != nil {
		t.Fatalf("launch: %v", err)
	}
	return id
}

// until watches until the condition holds, as `rayctl run` and `rayctl up` do: what is due is carried out.
func (s *suite) until(t *testing.T, id launcher.ID, what string, cond func(launcher.Status) bool) launcher.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	defer cancel()
	statuses, err := launcher.WatchAndReconcile(ctx, s.l, id, slog.Default())
	if err != nil {
		t.Fatalf("watch until %s: %v", what, err)
	}
	var last launcher.Status
	for st := range statuses {
		last = st
		if cond(st) {
			return st
		}
	}
	t.Fatalf("never %s; last seen: %s", what, mustJSON(t, last))
	return last
}

// untilRunning also compares what is shown of it then, as untilGone and run do in the end.
func (s *suite) untilRunning(t *testing.T, id launcher.ID) {
	t.Helper()
	s.until(t, id, "running", func(st launcher.Status) bool { return st.Job != nil && st.Job.State == runstate.JobRunning })
	s.agree(t, id)
}

func (s *suite) untilGone(t *testing.T, id launcher.ID) *launcher.Result {
	t.Helper()
	s.until(t, id, "gone", func(st launcher.Status) bool { return st.Phase == runstate.Gone })
	r, err := s.l.Result(s.context(t), id)
	if err != nil {
		t.Fatalf("result: %v", err)
	}
	s.agree(t, id)
	return r
}

// wantExit checks origin, cause and code of an exit.
func wantExit(t *testing.T, got runstate.Exit, origin, cause string, code int) {
	t.Helper()
	if got.Origin != origin || got.Cause != cause || got.Code != code {
		t.Errorf("exit: got %s, %s, code %d (%q), want %s, %s, code %d", got.Origin, got.Cause, got.Code, got.Message, origin, cause, code)
	}
	if origin == "rayctl" && got.Message == "" {
		t.Errorf("exit of rayctl without a sentence: %+v", got)
	}
}

// wantCode checks the exit code of an error and its kind.
func wantCode(t *testing.T, err error, code int, kind error) {
	t.Helper()
	if err == nil || launcher.ExitCode(err) != code || (kind != nil && !errors.Is(err, kind)) {
		t.Errorf("got error %v (code %d), want code %d, %v", err, launcher.ExitCode(err), code, kind)
	}
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails, see crypto/rand
	return hex.EncodeToString(b)
}

func short(b []byte) string {
	if len(b) > 2000 {
		return string(b[:1000]) + " ... " + string(b[len(b)-1000:])
	}
	return string(b)
}

// python is an entrypoint that runs the program text.
func python(program string) string { return "python -c " + shellescape.Quote(program) }

func durationPtr(d time.Duration) *units.Duration { v := units.Duration(d); return &v }
