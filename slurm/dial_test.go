//go:build linux

package slurm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

func init() {
	text := os.Getenv(dialVariable)
	if text == "" {
		return
	}
	var r dialRequest
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		l := slurm.New(slurm.Config{Dir: r.Dir})
		var via string
		via, err = answers(context.Background(), l, launcher.ID(r.Name), launcher.Dashboard)
		fmt.Println(via)
		l.Close()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// dialVariable makes this program a client of one cluster that runs where the test starts it: it prints by which way the keeper answered.
const dialVariable = "SLURM_TEST_DIAL"

type dialRequest struct{ Dir, Name string }

// answers makes a request to dashboard or keeper, and returns by which way.
func answers(ctx context.Context, l launcher.Launcher, id launcher.ID, target launcher.Target) (string, error) {
	e, err := l.Dial(ctx, id, target)
	if err != nil {
		return "", err
	}
	defer e.Close()
	if target == launcher.Dashboard {
		c, err := launcher.DashboardClient(e, nil)
		if err != nil {
			return "", err
		}
		defer c.Close()
		_, err = c.ListJobs(ctx)
		return e.Via, err
	}
	k := launcher.KeeperClient(e)
	defer k.Close()
	for began := time.Now(); ; { // a call ends after 10 s, and whoever follows a run makes the next one
		if _, err = k.State(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > patience {
			return e.Via, err
		}
	}
}

// TestDial reaches one cluster that listens on its node's address, and one on loopback, by every way there is.
func TestDial(t *testing.T) {
	pace.Parallel(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := newBed(t, slurmtest.Options{Nodes: 2, LoginSSH: true, Binds: []string{program}})
	t.Run("Refused", b.exposedOldRay)
	exposed, hidden := b.named("exposed", "sleep 1000"), b.named("hidden", "sleep 1000")
	exposed.Ray.Version, exposed.Sections = "2.60.0", slurmspec.In(&slurmspec.Section{Expose: "node"})
	l := b.launcher()
	for _, s := range []*spec.ClusterSpec{exposed, hidden} {
		id, err := l.Launch(t.Context(), s, launcher.Payload{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.down(t, l, id)
		defer func() {
			if t.Failed() {
				t.Log(b.story(t, id))
			}
		}()
	}
	nodes := map[launcher.ID]string{}
	for _, id := range []launcher.ID{"exposed", "hidden"} {
		st := watchUntil(t, l, id, func(s launcher.Status) bool { return s.Job != nil && s.Job.State == runstate.JobRunning })
		nodes[id] = st.Nodes[0].Host
	}
	for _, test := range []struct {
		name, where string
		id          launcher.ID
		want        string
	}{
		{"next to the controller", "", "exposed", "direct"},
		{"on the head's node", nodes["hidden"], "hidden", "direct"},
		{"next to the controller, loopback", "", "hidden", "srun --overlap on " + nodes["hidden"]},
	} {
		t.Run(test.name, func(t *testing.T) {
			if via := b.dialFrom(t, program, test.where, test.id); via != test.want {
				t.Errorf("by %q, want %q", via, test.want)
			}
		})
	}
	t.Run("ssh -W", func(t *testing.T) { b.forwards(t, "ssh -W through login") })
	t.Run("ssh without forwarding", func(t *testing.T) {
		l := b.ssh(t, "IdentityFile="+b.Login.Restricted)
		want := "srun --overlap on " + nodes["exposed"]
		for range 2 { // chosen, then remembered
			if via, err := answers(t.Context(), l, "exposed", launcher.Keeper); via != want || err != nil {
				t.Errorf("by %q, want %q; %v", via, want, err)
			}
		}
	})
	t.Run("srun heals", func(t *testing.T) { b.stepHeals(t, l, "hidden") })
	t.Run("FollowCut", b.followCut)
}

// exposedOldRay: a dashboard without tokens is never exposed.
func (b *bed) exposedOldRay(t *testing.T) {
	for _, version := range []string{"", "2.51.1"} {
		s := b.named("exposed-old", "true")
		s.Ray.Version, s.Sections = version, slurmspec.In(&slurmspec.Section{Expose: "node"})
		if _, err := b.launcher().Launch(t.Context(), s, launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeSpec {
			t.Errorf("version %q: %v", version, err)
		}
	}
	b.nothingLeft(t, "exposed-old")
}

// dialFrom runs a client on a node; "" is next to the controller.
func (b *bed) dialFrom(t *testing.T, program, node string, id launcher.ID) string {
	t.Helper()
	request, err := json.Marshal(dialRequest{b.Dir(), string(id)})
	if err != nil {
		t.Fatal(err)
	}
	cmd := b.Cluster.Command(t.Context(), "", program)
	if node != "" {
		if cmd, err = b.NodeCommand(t.Context(), node, "", program); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Env = append(cmd.Env, dialVariable+"="+string(request))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// forwards: through the login node's sshd, and again after a cut.
func (b *bed) forwards(t *testing.T, want string) {
	l := b.ssh(t)
	for _, target := range []launcher.Target{launcher.Keeper, launcher.Dashboard} {
		if via, err := answers(t.Context(), l, "exposed", target); via != want || err != nil {
			t.Errorf("%s by %q, want %q; %v", target, via, want, err)
		}
	}
	e, err := l.Dial(t.Context(), "exposed", launcher.Keeper)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	k := launcher.KeeperClient(e)
	defer k.Close()
	if _, err := k.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Login.Direct.CutConnections()
	b.Await(t, "the way to heal", func(ctx context.Context) (bool, error) {
		_, err := k.State(ctx)
		return err == nil, err
	})
}

// stepHeals: the stream through srun is opened again when its srun was killed.
func (b *bed) stepHeals(t *testing.T, l *slurm.Launcher, id launcher.ID) {
	e, err := l.Dial(t.Context(), id, launcher.Keeper)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	k := launcher.KeeperClient(e)
	defer k.Close()
	for range 2 {
		b.Await(t, "the keeper to answer", func(ctx context.Context) (bool, error) {
			_, err := k.State(ctx)
			return err == nil, err
		})
		killed := 0
		for _, p := range b.own() {
			if strings.HasPrefix(p.Command, "srun ") && strings.Contains(p.Command, "keeper.pyz slurm-relay") {
				killed++
				if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
					t.Error(err)
				}
			}
		}
		if killed == 0 {
			t.Error("there was no srun to kill")
		}
	}
}

// followCut: of a driver's output no byte is lost or shown twice although the connection is cut again and again.
func (b *bed) followCut(t *testing.T) {
	const parts, lines = 3, 100
	l := b.ssh(t)
	flag := b.Cluster.Dir + "/shared/cut-"
	s := b.named("follow", fmt.Sprintf(`for part in $(seq %d); do for i in $(seq %d); do printf '%%s line %%06d \377\r\n' $part $i; done
echo end of part $part; while [ ! -e %s$part ]; do sleep 0.1; done; done`, parts, lines, flag))
	var want strings.Builder
	for part := range parts {
		for i := range lines {
			fmt.Fprintf(&want, "%d line %06d \377\r\n", part+1, i+1)
		}
		fmt.Fprintf(&want, "end of part %d\n", part+1)
	}
	out := &cutting{cut: func(part int) {
		b.Login.Direct.CutConnections()
		if err := os.WriteFile(fmt.Sprint(flag, part), nil, 0o644); err != nil {
			t.Error(err)
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	oc, err := launcher.Run(ctx, l, s, launcher.Payload{}, launcher.RunOptions{Stdout: out})
	if err != nil {
		t.Fatalf("%v\n%s", err, b.story(t, "follow"))
	}
	if out.String() != want.String() || oc.Receipt.Exit.Code != 0 || out.cuts != parts {
		t.Errorf("%d of %d bytes, %d cuts, exit %+v", out.Len(), want.Len(), out.cuts, oc.Receipt.Exit)
	}
	if err := l.Forget(ctx, "follow"); err != nil {
		t.Error(err)
	}
}

// cutting cuts the connection to the login node when it has seen all of a part, and lets the driver go on.
type cutting struct {
	bytes.Buffer
	cut  func(part int)
	cuts int
}

func (c *cutting) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	for bytes.Contains(c.Bytes(), fmt.Appendf(nil, "end of part %d\n", c.cuts+1)) {
		c.cuts++
		c.cut(c.cuts)
	}
	return n, err
}
