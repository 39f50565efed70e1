package kuberay_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
)

// TestCrash: the head's container ends again and again; the reason has its last lines.
func TestCrash(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("crashes", "echo never")
	s.Head.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"containers": []any{map[string]any{
		"name": "ray-head", "args": []any{"echo the disk is upside down >&2; exit 4;"},
	}}}})
	r := b.begin(t, b.l, s)
	if e := r.wantEnd(t, "start-failed", runstate.CodeStartFailed, ""); !strings.Contains(e.Message, "the disk is upside down") {
		t.Errorf("exit %+v", e)
	}
}
