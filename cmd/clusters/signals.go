package clusters

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Values of --on-interrupt.
const (
	interruptAsk    = ""
	interruptStop   = "stop"
	interruptDetach = "detach"
)

// sameRequest is the time within which a repeated signal counts as the same request: `timeout`, batch systems and service managers signal the process and then
// its group.
const sameRequest = time.Second

// interrupts turns signals into actions on a watched run. SIGHUP detaches, and so does SIGPIPE if the reader of stdout has ended, as in
// `rayctl run | head`. SIGINT and SIGTERM follow policy. Without a policy they stop, but SIGINT asks on a terminal. A second request stops at
// once.
type interrupts struct {
	a       *app.App
	policy  string
	grace   func() time.Duration // of the driver; 0: there is no driver now
	actions chan launcher.Action
	answers chan string // lines typed as answers to the question
	last    os.Signal   // of the last request
	since   time.Time   // when it came
}

// driverGrace is the time that the driver has to end, if there is one.
type driverGrace struct {
	Time time.Duration // job.grace
	runs atomic.Bool
}

// See takes a new status of the run.
func (d *driverGrace) See(s launcher.Status) {
	d.runs.Store(s.Job != nil && s.Job.State == runstate.JobRunning || s.Job.Preparing() && s.Job.Prepare.State == runstate.JobRunning)
}

// Now is 0 while there is no driver.
func (d *driverGrace) Now() time.Duration {
	if !d.runs.Load() {
		return 0
	}
	return d.Time
}

// noDriver is for clusters without a job.
func noDriver() time.Duration { return 0 }

// watchSignals handles signals until ctx ends.
func watchSignals(ctx context.Context, a *app.App, policy string, grace func() time.Duration) <-chan launcher.Action {
	i := &interrupts{a: a, policy: policy, grace: grace, actions: make(chan launcher.Action)}
	signals := make(chan os.Signal, 4)
	a.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	go i.loop(ctx, signals)
	return i.actions
}

func (i *interrupts) loop(ctx context.Context, signals <-chan os.Signal) {
	asked, stopping := false, false
	for {
		var action launcher.Action
		select {
		case <-ctx.Done():
			return
		case line := <-i.answers:
			if !asked {
				continue
			}
			asked, i.last = false, nil // the next signal is another request
			i.a.UI.Answered()
			action = i.answer(line)
		case s := <-signals:
			switch {
			case s == syscall.SIGPIPE && !readerGone(i.a.Out):
				continue // Go sends SIGPIPE for every broken connection, and those recover
			case !asked && i.repeated(s): // a second Ctrl-C at the question is a second request
				continue
			case s == syscall.SIGHUP, s == syscall.SIGPIPE:
				action = launcher.Detach
			case asked || stopping:
				action = launcher.StopNow
			case i.policy == interruptDetach:
				action = launcher.Detach
			case s == syscall.SIGINT && i.policy == interruptAsk && i.a.InTTY && i.a.ErrTTY:
				asked = true
				i.ask(ctx)
			case s == syscall.SIGTERM:
				action = launcher.Terminated
			default:
				action = launcher.Stop
			}
		}
		if action == 0 {
			continue
		}
		i.a.UI.Answered()
		stopping = stopping || action != launcher.Detach
		i.tell(action)
		select {
		case i.actions <- action:
		case <-ctx.Done():
			return
		}
	}
}

// repeated reports whether a signal only repeats the last request.
func (i *interrupts) repeated(s os.Signal) bool {
	now := i.a.Now()
	if s == i.last && now.Sub(i.since) < sameRequest {
		return true
	}
	i.last, i.since = s, now
	return false
}

func (i *interrupts) tell(action launcher.Action) {
	switch action {
	case launcher.Stop, launcher.Terminated:
		grace := i.grace()
		if grace == 0 {
			i.a.UI.Note("Stopping the cluster. %s to stop it at once", i.again())
			return
		}
		i.a.UI.Note("Stopping: the driver has %s to finish. %s to kill it", launcher.Human(grace.Seconds()), i.again())
	case launcher.StopNow:
		i.a.UI.Note("Stopping at once")
	}
}

// again is how the same request is made once more: without a terminal it was a signal of another process.
func (i *interrupts) again() string {
	if i.a.InTTY && i.a.ErrTTY {
		return "Press Ctrl-C again"
	}
	return "Send the signal again"
}

func (i *interrupts) ask(ctx context.Context) {
	i.a.UI.Ask("Stop, detach or continue? [s/d/c] (Ctrl-C again stops the run at once)")
	if i.answers != nil {
		return // the reader of the first question is still running
	}
	i.answers = make(chan string)
	go func() {
		for lines := bufio.NewScanner(i.a.In); lines.Scan(); {
			select {
			case i.answers <- lines.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
}

// answer interprets a typed line; anything but stop and detach continues.
func (i *interrupts) answer(line string) launcher.Action {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "s", "stop":
		return launcher.Stop
	case "d", "detach":
		return launcher.Detach
	default:
		i.a.UI.Note("The run continues")
		return 0
	}
}

// readerGone reports whether a stream has no reader any more, as when `head` has ended.
func readerGone(w io.Writer) bool {
	if out, ok := w.(*driverio.Stdout); ok {
		w = out.Writer()
	}
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	streams := []unix.PollFd{{Fd: int32(file.Fd())}} //nolint:gosec // file descriptors are small
	n, err := unix.Poll(streams, 0)
	return err == nil && n > 0 && streams[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
}
