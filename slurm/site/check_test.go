package site

import (
	"errors"
	"strings"
	"testing"
)

// TestControllerHint: the hint is made before it is known whether it is needed.
func TestControllerHint(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "set slurm.host"},
		{errors.New("ssh: Could not resolve hostname nosuch: Name or service not known"), "correct slurm.host"},
		{errors.New("other"), "set slurm.host"},
	} {
		if got := new(Site).controllerHint(c.err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %q", c.err, got)
		}
	}
}
