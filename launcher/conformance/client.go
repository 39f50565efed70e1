package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
)

// factory makes the launcher under test, in the test's process and in the clients that it kills.
var factory func(setting string) launcher.Launcher

// clientEnv carries a clientTask to a re-executed test binary.
const clientEnv = "RAYCTL_CONFORMANCE_CLIENT"

// clientTask is what a client process does: one launcher.Run.
type clientTask struct {
	Setting    string
	Spec       json.RawMessage
	Hang       bool          // block in Payload.Packages and never commit
	Disconnect time.Duration // end on disconnect
	Detach     bool
}

// Main runs the tests. In a process that a test started as its client, it is that client instead.
func Main(m *testing.M, newLauncher func(setting string) launcher.Launcher) {
	factory = newLauncher
	task := os.Getenv(clientEnv)
	if task == "" {
		pace.AtOnce("3") // most of a scenario is waiting
		os.Exit(m.Run())
	}
	if err := clientMain(task); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(launcher.ExitCode(err))
	}
}

func clientMain(text string) error {
	var task clientTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	var s spec.ClusterSpec
	if err := json.Unmarshal(task.Spec, &s); err != nil {
		return err
	}
	p := payloadOf(&s)
	p.EndOnDisconnect, p.Packages = task.Disconnect, func(ctx context.Context) (*launcher.Packages, error) {
		fmt.Println("event packing")
		if task.Hang {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return packagesOf(ctx, &s)
	}
	l := factory(task.Setting)
	_, err := launcher.Run(context.Background(), l, &s, p, launcher.RunOptions{
		Stdout: io.Discard, Detach: task.Detach,
		OnStatus: func(st launcher.Status) {
			fmt.Println("event", st.Phase)
			if st.Job != nil {
				fmt.Println("event", st.Job.State)
			}
		},
	})
	return err
}

// client is a rayctl client in a process of its own, so that a test can kill it.
type client struct {
	cmd    *exec.Cmd
	mu     sync.Mutex
	seen   map[string]bool
	change chan struct{}
	ended  chan struct{}
}

func (s *suite) startClient(t *testing.T, task clientTask, sp *spec.ClusterSpec) *client {
	t.Helper()
	task.Setting = s.Setting
	task.Spec = mustJSON(t, sp)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &client{cmd: exec.Command(exe, "-test.run=^$"), seen: map[string]bool{}, change: make(chan struct{}, 1), ended: make(chan struct{})} //nolint:noctx // it is killed when the test wants it
	c.cmd.Env = append(os.Environ(), clientEnv+"="+string(mustJSON(t, task)))
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.read(out)
	t.Cleanup(c.kill)
	return c
}

func (c *client) read(out io.Reader) {
	defer close(c.ended)
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if event, ok := strings.CutPrefix(sc.Text(), "event "); ok {
			c.mu.Lock()
			c.seen[event] = true
			c.mu.Unlock()
			select {
			case c.change <- struct{}{}:
			default:
			}
		}
	}
}

// await waits until the client has seen one of the events.
func (c *client) await(t *testing.T, patience time.Duration, events ...string) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		c.mu.Lock()
		for _, e := range events {
			if c.seen[e] {
				c.mu.Unlock()
				return
			}
		}
		c.mu.Unlock()
		select {
		case <-c.change:
		case <-c.ended:
			t.Fatalf("the client ended before it saw %v", events)
		case <-limit.C:
			t.Fatalf("the client has not seen %v after %s", events, patience)
		}
	}
}

// kill is SIGKILL: the client cleans nothing up.
func (c *client) kill() {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(err)
	}
	_ = c.cmd.Wait() // the error only reports the kill
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
