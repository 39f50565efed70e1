package clusters

import (
	"io"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestEventsOfElasticNodes: nodes of elastic groups are in the list with their times, between the other events; what all nodes have in common, the main allocation, is not.
func TestEventsOfElasticNodes(t *testing.T) {
	at := func(seconds int) *time.Time { x := apptest.Begin.Add(time.Duration(seconds) * time.Second); return &x }
	s := launcher.Status{
		Timeline: []runstate.Event{{At: *at(1), Kind: runstate.EventPhase, To: string(runstate.Ready)}, {At: *at(9), Kind: runstate.EventPhase, To: string(runstate.Gone), Message: "ended by rayctl down"}},
		Allocations: []runstate.Allocation{
			{ID: "main.1", Purpose: runstate.PurposeMain, State: runstate.AllocationReleased, Queued: at(0), Granted: at(0), Released: at(9)},
			{ID: "w-0.1", Purpose: runstate.PurposeElastic, State: runstate.AllocationReleased, Queued: at(2), Granted: at(2), Released: at(6), Message: "nothing needed it any more"},
			{ID: "w-1.2", Purpose: runstate.PurposeElastic, State: runstate.AllocationGranted, Queued: at(3), Granted: at(5), Where: "job 12"},
			{ID: "w-2.3", Purpose: runstate.PurposeElastic, State: runstate.AllocationQueued, Queued: at(8)},
		},
	}
	want := []string{
		"2026-01-02T03:04:06Z phase Ready",
		"2026-01-02T03:04:07Z allocation granted w-0.1", "2026-01-02T03:04:08Z allocation queued w-1.2", "2026-01-02T03:04:10Z allocation granted w-1.2: job 12",
		"2026-01-02T03:04:11Z allocation released w-0.1: nothing needed it any more", "2026-01-02T03:04:13Z allocation queued w-2.3", "2026-01-02T03:04:14Z phase Ended ended by rayctl down",
	}
	got := eventsOf(s)
	for i, e := range got {
		if i >= len(want) || eventLine(io.Discard, e) != want[i] {
			t.Errorf("event %d is %q", i, eventLine(io.Discard, e))
		}
	}
	if len(got) != len(want) || len(s.Timeline) != 2 {
		t.Errorf("%d events, want %d; the status has %d", len(got), len(want), len(s.Timeline))
	}
}
