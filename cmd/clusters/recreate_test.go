package clusters

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// replaceable records the calls on an existing cluster. It stands for any launcher: the test is about which calls are made, and when.
type replaceable struct {
	launcher.Launcher
	invalid error
	done    []string
}

func (*replaceable) Render(*spec.ClusterSpec) ([]launcher.File, error) { return nil, nil }
func (r *replaceable) Validate(context.Context, *spec.ClusterSpec, launcher.Payload) error {
	return r.invalid
}
func (r *replaceable) Terminate(context.Context, launcher.ID, launcher.End) error {
	r.done = append(r.done, "terminate")
	return nil
}
func (r *replaceable) Forget(context.Context, launcher.ID) error {
	r.done = append(r.done, "forget")
	return nil
}

// TestRecreateKeepsWhatItCannotReplace: the old cluster and its record are removed only if the new launch is not refused.
func TestRecreateKeepsWhatItCannotReplace(t *testing.T) {
	bad := errors.New("bad")
	s := &spec.ClusterSpec{Name: "a"}
	packed := 0
	for name, c := range map[string]struct {
		invalid, unpacked error
		want              []string
	}{
		"refused by the launcher": {bad, nil, nil},
		"cannot be packed":        {nil, bad, nil},
		"good":                    {nil, nil, []string{"terminate", "forget"}},
	} {
		l := &replaceable{invalid: c.invalid}
		p := &launcher.Payload{Packages: func(context.Context) (*launcher.Packages, error) {
			packed++
			return &launcher.Packages{}, c.unpacked
		}}
		err := replace(t.Context(), l, s, p)
		if (err != nil) != (c.want == nil) || !slices.Equal(l.done, c.want) {
			t.Errorf("%s: %v, %v", name, l.done, err)
		}
		if err == nil {
			before := packed
			if _, err := p.Packages(t.Context()); err != nil || packed != before {
				t.Errorf("packed again: %v", err)
			}
		}
	}
}
