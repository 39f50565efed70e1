package interrupt

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
)

// TestInterrupts checks the actions that follow from signals and answers.
func TestInterrupts(t *testing.T) {
	for _, c := range []struct {
		name    string
		tty     bool
		policy  string
		typed   string
		signals []os.Signal
		want    []launcher.Action
		times   []time.Duration // when each signal that is judged came; nil: all at once
	}{
		{"no terminal", false, "", "", []os.Signal{syscall.SIGINT, syscall.SIGINT}, []launcher.Action{launcher.Stop, launcher.StopNow}, []time.Duration{0, sameRequest}},
		{"to the process and its group", false, "", "", []os.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGTERM, syscall.SIGTERM},
			[]launcher.Action{launcher.Terminated, launcher.StopNow}, []time.Duration{0, 1, sameRequest - 1, sameRequest}},
		{"one signal and another", false, "", "", []os.Signal{syscall.SIGINT, syscall.SIGTERM}, []launcher.Action{launcher.Stop, launcher.StopNow}, nil},
		{"terminated", true, "", "", []os.Signal{syscall.SIGTERM}, []launcher.Action{launcher.Terminated}, nil},
		{"hangup", true, "", "", []os.Signal{syscall.SIGHUP}, []launcher.Action{launcher.Detach}, nil},
		{"broken pipe", true, "", "", []os.Signal{syscall.SIGPIPE}, []launcher.Action{launcher.Detach}, nil},
		{"broken connection", true, "", "", []os.Signal{syscall.SIGPIPE, syscall.SIGTERM}, []launcher.Action{launcher.Terminated}, nil},
		{"policy detach", true, "detach", "", []os.Signal{syscall.SIGINT}, []launcher.Action{launcher.Detach}, nil},
		{"policy stop", true, "stop", "", []os.Signal{syscall.SIGINT}, []launcher.Action{launcher.Stop}, nil},
		{"twice", true, "", "", []os.Signal{syscall.SIGINT, syscall.SIGINT}, []launcher.Action{launcher.StopNow}, nil},
		{"answer stop", true, "", "s\n", []os.Signal{syscall.SIGINT}, []launcher.Action{launcher.Stop}, nil},
		{"answer detach", true, "", "detach\n", []os.Signal{syscall.SIGINT}, []launcher.Action{launcher.Detach}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _, _ := apptest.New()
			a.InTTY, a.ErrTTY, a.Quiet = c.tty, c.tty, true
			a.In = io.MultiReader(strings.NewReader(c.typed), blocked{})
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			defer writer.Close()
			a.Out = writer
			if c.name == "broken pipe" {
				reader.Close()
			}
			judged := 0
			a.Now = func() time.Time {
				judged++
				if c.times == nil {
					return time.Unix(0, 0)
				}
				return time.Unix(0, 0).Add(c.times[judged-1])
			}
			var signals chan<- os.Signal
			a.Notify = func(ch chan<- os.Signal, _ ...os.Signal) { signals = ch }
			actions := Watch(t.Context(), a, c.policy, (&Grace{}).Now)
			for _, s := range c.signals {
				signals <- s
			}
			for _, want := range c.want {
				if got := <-actions; got != want {
					t.Errorf("got action %d, want %d", got, want)
				}
			}
		})
	}
}

// blocked is a terminal without input.
type blocked struct{}

func (blocked) Read([]byte) (int, error) { select {} }

// TestInterruptsAreTold: what a request to end does, and how the next one is made.
func TestInterruptsAreTold(t *testing.T) {
	for _, c := range []struct {
		tty    bool
		grace  time.Duration
		action launcher.Action
		want   string
	}{
		{true, 30 * time.Second, launcher.Stop, "Stopping: the driver has 30 s to finish. Press Ctrl-C again to kill it\n"},
		{false, 150 * time.Second, launcher.Terminated, "Stopping: the driver has 2 min 30 s to finish. Send the signal again to kill it\n"},
		{true, 0, launcher.Stop, "Stopping the cluster. Press Ctrl-C again to stop it at once\n"},
		{true, 30 * time.Second, launcher.StopNow, "Stopping at once\n"},
		{true, 30 * time.Second, launcher.Detach, ""},
	} {
		a, _, stderr := apptest.New()
		a.InTTY, a.ErrTTY = c.tty, c.tty
		(&interrupts{a: a, grace: func() time.Duration { return c.grace }}).tell(c.action)
		if got := stderr.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
