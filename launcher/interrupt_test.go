package launcher

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// interruptible launches until it is interrupted, and then removes what it made, or does not.
type interruptible struct {
	Launcher
	left error
}

func (l *interruptible) Launch(ctx context.Context, s *spec.ClusterSpec, _ Payload) (ID, error) {
	<-ctx.Done()
	return "", errors.Join(ctx.Err(), Left(l.left, "its directory /runs/%s", s.Name))
}

// TestInterruptedLaunch: "nothing was left behind" is said only where that is so. Otherwise the sentence has what is left, where, and what removes it.
func TestInterruptedLaunch(t *testing.T) {
	for _, test := range []struct {
		left error
		want string
	}{
		{nil, "the launch of dev was interrupted; nothing was left behind"},
		{fs.ErrPermission, "the launch of dev was interrupted, and its directory /runs/dev could not be removed: permission denied: `rayctl down dev` removes it"},
	} {
		actions := make(chan Action, 1)
		actions <- Stop
		_, _, err := launch(t.Context(), &interruptible{left: test.left}, &spec.ClusterSpec{Name: "dev"}, Payload{}, RunOptions{Actions: actions})
		if ExitCode(err) != runstate.CodeInterrupted || err.Error() != test.want || strings.Contains(err.Error(), "\n") || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}
