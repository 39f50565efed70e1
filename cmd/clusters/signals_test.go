package clusters

import (
	"io"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
)

// typed is a line that the user types.
type typed string

// TestInterrupts checks the actions that follow from signals and typed lines: these, and no others.
func TestInterrupts(t *testing.T) {
	for _, c := range []struct {
		name   string
		tty    bool
		policy string
		events []any // signals and typed lines
		want   []launcher.Action
		times  []time.Duration // when each signal that is judged came; nil: all at once
	}{
		{"no terminal", false, "", []any{syscall.SIGINT, syscall.SIGINT}, []launcher.Action{launcher.Stop, launcher.StopNow}, []time.Duration{0, sameRequest}},
		{"to the process and its group", false, "", []any{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGTERM, syscall.SIGTERM},
			[]launcher.Action{launcher.Terminated, launcher.StopNow}, []time.Duration{0, 1, sameRequest - 1, sameRequest}},
		{"one signal and another", false, "", []any{syscall.SIGINT, syscall.SIGTERM}, []launcher.Action{launcher.Stop, launcher.StopNow}, nil},
		{"terminated", true, "", []any{syscall.SIGTERM}, []launcher.Action{launcher.Terminated}, nil},
		{"hangup", true, "", []any{syscall.SIGHUP}, []launcher.Action{launcher.Detach}, nil},
		{"broken pipe", true, "", []any{syscall.SIGPIPE}, []launcher.Action{launcher.Detach}, nil},
		{"broken connection", true, "", []any{syscall.SIGPIPE}, nil, nil},
		{"broken connection, then terminated", true, "", []any{syscall.SIGPIPE, syscall.SIGTERM}, []launcher.Action{launcher.Terminated}, nil},
		{"policy detach", true, "detach", []any{syscall.SIGINT}, []launcher.Action{launcher.Detach}, nil},
		{"policy stop", true, "stop", []any{syscall.SIGINT}, []launcher.Action{launcher.Stop}, nil},
		{"asked", true, "", []any{syscall.SIGINT}, nil, nil},
		{"twice", true, "", []any{syscall.SIGINT, syscall.SIGINT}, []launcher.Action{launcher.StopNow}, nil},
		{"answer stop", true, "", []any{syscall.SIGINT, typed("s")}, []launcher.Action{launcher.Stop}, nil},
		{"answer detach", true, "", []any{syscall.SIGINT, typed("detach")}, []launcher.Action{launcher.Detach}, nil},
		{"answer continue", true, "", []any{syscall.SIGINT, typed("c")}, nil, nil},
		{"a line after the answer", true, "", []any{syscall.SIGINT, typed("c"), typed("s")}, nil, nil},
		{"asked again", true, "", []any{syscall.SIGINT, typed("c"), syscall.SIGINT, typed("s"), syscall.SIGINT}, []launcher.Action{launcher.Stop, launcher.StopNow}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			defer writer.Close()
			if c.name == "broken pipe" {
				reader.Close()
			}
			judged := 0
			now := func() time.Time {
				judged++
				if c.times == nil {
					return time.Unix(0, 0)
				}
				return time.Unix(0, 0).Add(c.times[judged-1])
			}
			synctest.Test(t, func(t *testing.T) {
				if got := follow(t, c.tty, c.policy, writer, now, c.events); !slices.Equal(got, c.want) {
					t.Errorf("got actions %d, want %d", got, c.want)
				}
			})
		})
	}
}

// follow lets each event have its effect before the next one, and returns all actions.
func follow(t *testing.T, tty bool, policy string, out io.Writer, now func() time.Time, events []any) (got []launcher.Action) {
	t.Helper()
	a, _, _ := apptest.New()
	a.InTTY, a.ErrTTY, a.Quiet, a.Out, a.Now = tty, tty, true, out, now
	in, terminal := io.Pipe()
	defer terminal.Close()
	a.In = in
	var signals chan<- os.Signal
	var wanted []os.Signal
	a.Notify = func(ch chan<- os.Signal, list ...os.Signal) { signals, wanted = ch, list }
	actions := watchSignals(t.Context(), a, policy, (&driverGrace{}).Now)
	for _, event := range events {
		switch e := event.(type) {
		case typed:
			if _, err := io.WriteString(terminal, string(e)+"\n"); err != nil {
				t.Fatal(err)
			}
		case os.Signal:
			if !slices.Contains(wanted, e) {
				t.Fatalf("%v would not arrive", e)
			}
			signals <- e
		}
		synctest.Wait()
		select {
		case action := <-actions:
			got = append(got, action)
		default:
		}
	}
	synctest.Wait()
	select {
	case action := <-actions:
		t.Errorf("one more action: %d", action)
	default:
	}
	return got
}

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
