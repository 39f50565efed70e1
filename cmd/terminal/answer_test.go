package terminal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrapped(t *testing.T) {
	rows := [][]string{{"NAME", "PHASE", "REASON"}, {"a-cluster", "Queued", "jobs of higher priority are ahead of it"}, {"b", "Ready", ""}}
	if d := cmp.Diff(rows, wrapped(rows, 0)); d != "" {
		t.Errorf("without a terminal: %s", d)
	}
	want := [][]string{
		{"NAME", "PHASE", "REASON"},
		{"a-cluster", "Queued", "jobs of higher priority"}, {"", "", "are ahead of it"},
		{"b", "Ready", ""},
	}
	if d := cmp.Diff(want, wrapped(rows, 9+gap+6+gap+24)); d != "" {
		t.Errorf("on a terminal: %s", d)
	}
	if d := cmp.Diff([]string{"see", "https://example.com/long", "now"}, lines("see https://example.com/long now", 8)); d != "" {
		t.Errorf("a long word: %s", d)
	}
}
