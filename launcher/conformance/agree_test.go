package conformance

import (
	"context"
	"errors"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// showing is a launcher that shows one cluster, in its two ways and with this result.
type showing struct {
	launcher.Launcher
	listed, watched []launcher.Status
	result          *launcher.Result
	failure         error
}

func (s showing) List(context.Context, launcher.Selector) ([]launcher.Status, error) {
	return s.listed, s.failure
}

func (s showing) Watch(context.Context, launcher.ID) (<-chan launcher.Status, error) {
	sent := make(chan launcher.Status, len(s.watched))
	for _, w := range s.watched {
		sent <- w
	}
	close(sent)
	return sent, nil
}

func (s showing) Result(context.Context, launcher.ID) (*launcher.Result, error) {
	if s.result == nil {
		return nil, launcher.NotEnded("c")
	}
	return s.result, nil
}

// TestAgree: no difference between what is shown, the substrate and the result passes in silence.
func TestAgree(t *testing.T) {
	of := func(phase runstate.Phase, exit *runstate.Exit) []launcher.Status {
		return []launcher.Status{{Name: "c", Phase: phase, Attempt: 1, Exit: exit}}
	}
	resultOf := func(exit runstate.Exit) *launcher.Result {
		return launcher.NewResult(launcher.Status{Name: "c", Phase: runstate.Gone, Exit: &exit}, launcher.LogInfo{}, nil)
	}
	lost, down := runstate.Exit{Cause: "lost", Code: 76}, runstate.Exit{Cause: "down", Code: 130}
	ready, gone, held := of(runstate.Ready, nil), of(runstate.Gone, &lost), []string{"a process"}
	restarted := of(runstate.Ready, nil)
	restarted[0].Attempt = 2
	for name, c := range map[string]struct {
		l    showing
		held []string
		want bool
	}{
		"it lives":                     {showing{listed: ready, watched: ready}, held, true},
		"it has ended":                 {showing{listed: gone, watched: gone, result: resultOf(lost)}, nil, true},
		"another phase":                {showing{listed: ready, watched: of(runstate.Starting, nil)}, held, false},
		"another attempt":              {showing{listed: ready, watched: restarted}, held, false},
		"another exit":                 {showing{listed: gone, watched: of(runstate.Gone, &down), result: resultOf(lost)}, nil, false},
		"not listed":                   {showing{watched: ready}, held, false},
		"listed twice":                 {showing{listed: append(of(runstate.Ready, nil), ready...), watched: ready}, held, false},
		"not watched":                  {showing{listed: ready}, held, false},
		"ls fails":                     {showing{listed: ready, watched: ready, failure: errors.New("away")}, held, false},
		"alive with nothing":           {showing{listed: ready, watched: ready}, nil, false},
		"ended, and something is":      {showing{listed: gone, watched: gone, result: resultOf(lost)}, held, false},
		"ended without a result":       {showing{listed: gone, watched: gone}, nil, false},
		"ended with another result":    {showing{listed: gone, watched: gone, result: resultOf(down)}, nil, false},
		"alive, and there is a result": {showing{listed: ready, watched: ready, result: resultOf(lost)}, held, false},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // one look
		if difference := Agree(ctx, c.l, "c", func() []string { return c.held }); (difference == "") != c.want {
			t.Errorf("%s: %q", name, difference)
		}
	}
}
