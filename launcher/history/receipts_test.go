package history_test

import (
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/history"
	"github.com/rayctl/rayctl/launcher/runstate"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestForget: what ended before a moment is removed from the history of this machine, unless it is only tried.
func TestForget(t *testing.T) {
	r := history.Receipts{Dir: t.TempDir()}
	for name, ended := range map[string]time.Time{"old": begin, "new": begin.Add(time.Hour)} {
		if err := r.Add(&launcher.Receipt{Name: name, Ended: ended}); err != nil {
			t.Fatal(err)
		}
	}
	for _, dryRun := range []bool{true, false} {
		removed, err := r.Forget(begin.Add(time.Minute), dryRun)
		if err != nil || len(removed) != 1 || removed[0] != (launcher.Collected{What: "receipt", Name: "old", Why: "ended 2026-01-02T03:04:05Z"}) {
			t.Errorf("%+v, %v", removed, err)
		}
		left, err := r.All()
		if want := map[bool]int{true: 2, false: 1}[dryRun]; err != nil || len(left) != want || left[0].Name != "new" && !dryRun {
			t.Errorf("%+v, %v", left, err)
		}
	}
}

// TestEnded: records and receipts of one cluster are one entry, a receipt alone is one too, and a record that is elsewhere is not called gone.
func TestEnded(t *testing.T) {
	exit := &runstate.Exit{Code: 3, Cause: "failed"}
	began := []runstate.Event{{At: begin}}
	statuses := []launcher.Status{
		{Name: "lives", Launcher: "slurm", Phase: runstate.Ready, Created: begin},
		{Name: "both", Launcher: "slurm", Phase: runstate.Gone, Created: begin, Since: begin.Add(time.Minute), Exit: exit},
	}
	receipts := []launcher.Receipt{
		{Name: "both", Launcher: "slurm", Created: begin.Local(), Usage: launcher.Usage{NodeSeconds: 7}},
		{Name: "both", Launcher: "slurm", Created: begin.Add(time.Hour), Timeline: began}, // the next of its name, whose record is gone
		{Name: "far", Launcher: "slurm", Where: "there", Created: begin, Timeline: began},
		{Name: "refused", Launcher: "slurm", Where: "there", Created: begin}, // it never had a record
	}
	ended := history.Ended(statuses, receipts, func(rc *launcher.Receipt) bool { return rc.Where == "" })
	type entry struct {
		name, elsewhere string
		record          bool
		seconds         float64
	}
	want := []entry{{"both", "", true, 7}, {"both", "", false, 0}, {"far", "slurm there", false, 0}, {"refused", "", false, 0}}
	if len(ended) != len(want) {
		t.Fatalf("%+v", ended)
	}
	for i, p := range ended {
		if got := (entry{p.Name, p.Elsewhere, p.Record, p.Usage.NodeSeconds}); got != want[i] {
			t.Errorf("%+v, want %+v", got, want[i])
		}
	}
}
