package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// agree waits until what List shows of a cluster is what Watch sends first: `ls` and `status` are one observation. Two looks may see two moments.
func (s *suite) agree(t *testing.T, id launcher.ID) {
	t.Helper()
	ctx := s.context(t)
	for {
		listed, watched, err := Looks(ctx, s.l, id)
		if err == nil && listed == watched {
			return
		}
		if !sleep.For(ctx, s.Patience/100) {
			t.Errorf("ls: %s\nstatus: %s\n%v", listed, watched, err)
			return
		}
	}
}

// Looks is a cluster as List and as Watch show it, without moments.
func Looks(ctx context.Context, l launcher.Launcher, id launcher.ID) (listed, watched string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows, err := l.List(ctx, launcher.Selector{Names: []string{string(id)}, All: true, Whole: true})
	if err != nil || len(rows) != 1 {
		return "", "", fmt.Errorf("%d rows: %w", len(rows), err)
	}
	statuses, err := l.Watch(ctx, id)
	if err != nil {
		return "", "", err
	}
	return look(rows[0]), look(<-statuses), nil
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
	}{s.Phase, s.Attempt, s.Reason, s.Groups, len(s.Nodes), s.Job, s.Exit, s.Due, s.Unreachable})
	if err != nil {
		return err.Error()
	}
	return string(text)
}
