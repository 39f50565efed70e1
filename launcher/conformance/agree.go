package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// agree waits until what List shows of a cluster is what Watch sends first, and what the substrate has: `ls`, `status` and -o json are one observation, and an
// ended cluster holds nothing, another one something. Two looks may see two moments. The result of an ended one, which `wait` and receipts have, has the same exit.
func (s *suite) agree(t *testing.T, id launcher.ID) {
	t.Helper()
	if difference := Agree(s.context(t), s.l, id, func() []string { return s.Allocated(t, id) }); difference != "" {
		t.Errorf("of %s are shown: %s", id, difference)
	}
}

// Agree is agree for other tests; allocated is what the substrate has allocated to the cluster. It returns the difference that stays until ctx ends, "" if there is none.
func Agree(ctx context.Context, l launcher.Launcher, id launcher.ID, allocated func() []string) (difference string) {
	for {
		if difference = disagreement(ctx, l, id, allocated); difference == "" || !sleep.For(ctx, 500*time.Millisecond) {
			return difference
		}
	}
}

// disagreement is what differs at one moment.
func disagreement(ctx context.Context, l launcher.Launcher, id launcher.ID, allocated func() []string) string {
	listed, watched, err := bothShow(ctx, l, id)
	if err != nil {
		return err.Error()
	}
	if row, first := look(*listed), look(*watched); row != first {
		return fmt.Sprintf("ls: %s\nstatus: %s", row, first)
	}
	if held := allocated(); listed.Phase.Ended() != (len(held) == 0) {
		return fmt.Sprintf("%s, and the substrate has %q", listed.Phase, held)
	}
	r, err := l.Result(ctx, id)
	switch {
	case !listed.Phase.Ended() && errors.Is(err, launcher.ErrNotEnded):
		return ""
	case err != nil:
		return fmt.Sprintf("%s, and its result is: %v", listed.Phase, err)
	case !listed.Phase.Ended():
		return fmt.Sprintf("%s, and it has a result", listed.Phase)
	case r.Exit == nil || listed.Exit == nil || r.Exit.Cause != listed.Exit.Cause || r.Exit.Code != listed.Exit.Code || r.Exit.Message != listed.Exit.Message:
		return fmt.Sprintf("ls: exit %+v, result: %+v", listed.Exit, r.Exit)
	}
	return ""
}

// Looks is a cluster as List and as Watch show it, without moments.
func Looks(ctx context.Context, l launcher.Launcher, id launcher.ID) (listed, watched string, err error) {
	row, first, err := bothShow(ctx, l, id)
	if err != nil {
		return "", "", err
	}
	return look(*row), look(*first), nil
}

// bothShow is the row of List, and what Watch sends first.
func bothShow(ctx context.Context, l launcher.Launcher, id launcher.ID) (listed, watched *launcher.Status, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows, err := l.List(ctx, launcher.Selector{Names: []string{string(id)}, All: true, Whole: true})
	if err != nil {
		return nil, nil, fmt.Errorf("ls: %w", err)
	}
	if len(rows) != 1 {
		return nil, nil, fmt.Errorf("ls has %d rows", len(rows))
	}
	statuses, err := l.Watch(ctx, id)
	if errors.Is(err, launcher.ErrNotFound) { // only its record is there, which `status` shows then
		if r, rerr := l.Result(ctx, id); rerr == nil {
			return &rows[0], &r.Status, nil
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("ls shows %s, status: %w", rows[0].Phase, err)
	}
	first, sent := <-statuses
	if !sent {
		return nil, nil, fmt.Errorf("ls shows %s, and status sends nothing", rows[0].Phase)
	}
	return &rows[0], &first, nil
}

// Uncommitted waits until List and Watch show a launch as one that is not committed.
func Uncommitted(ctx context.Context, t *testing.T, l launcher.Launcher, id launcher.ID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		listed, watched, err := Looks(ctx, l, id)
		if err == nil && strings.Contains(listed, `"Uncommitted":true`) && strings.Contains(watched, `"Uncommitted":true`) {
			return
		}
		if !sleep.For(ctx, time.Second) {
			t.Fatalf("a launch without a commit is not shown as one: ls: %s\nstatus: %s\n%v", listed, watched, err)
		}
	}
}

// look is what people see of a status.
func look(s launcher.Status) string {
	text, err := json.Marshal(struct {
		Phase       runstate.Phase
		Attempt     int
		Reason      runstate.Reason
		Groups      []runstate.Group
		Nodes       int
		Job         *runstate.Job
		Exit        *runstate.Exit
		Due         *launcher.End
		Unreachable string
		Uncommitted bool
	}{s.Phase, s.Attempt, s.Reason, s.Groups, len(s.Nodes), s.Job, s.Exit, s.Due, s.Unreachable, s.Uncommitted})
	if err != nil {
		return err.Error()
	}
	return string(text)
}
