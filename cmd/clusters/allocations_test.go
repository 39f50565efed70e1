package clusters

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

// severalAllocations are a living cluster with a head, a gang and elastic nodes, and an ended one whose nodes came at once but for one.
func severalAllocations() []launcher.Status {
	at := func(minutes int) *time.Time {
		t := apptest.Begin.Add(time.Duration(minutes) * time.Minute)
		return &t
	}
	gone := *at(60)
	return []launcher.Status{{
		Name: "living", Launcher: localspec.Name, Ours: true, Phase: runstate.Ready, Created: apptest.Begin, Since: *at(20), Where: "job 11",
		Groups: []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "trainer", Ready: 2, Wanted: 2, GPUs: 8}, {Name: "rollout", Ready: 1, Wanted: 2, GPUs: 2, Min: 0, Max: 4}},
		Allocations: []runstate.Allocation{
			{ID: "head.1", Purpose: runstate.PurposeHead, Groups: map[string]int{"head": 1}, State: runstate.AllocationGranted, Where: "job 11", Queued: at(0), Granted: at(1)},
			{ID: "gang.1", Purpose: runstate.PurposeGang, Groups: map[string]int{"trainer": 2}, State: runstate.AllocationGranted, Where: "job 12", Queued: at(2), Granted: at(20)},
			{ID: "rollout-0.1", Purpose: runstate.PurposeElastic, Groups: map[string]int{"rollout": 1}, State: runstate.AllocationReleased, Queued: at(21), Granted: at(22), Released: at(25), Message: "nothing needed it any more"},
			{ID: "rollout-0.2", Purpose: runstate.PurposeElastic, Groups: map[string]int{"rollout": 1}, State: runstate.AllocationGranted, Queued: at(26), Granted: at(27), Message: "job 14"},
			{ID: "rollout-1.3", Purpose: runstate.PurposeElastic, Groups: map[string]int{"rollout": 1}, State: runstate.AllocationQueued, Queued: at(28), Expected: at(90), Message: "job 15: the nodes it asks for are in use"},
		},
		Nodes: []runstate.Node{
			{Name: "head-0", Group: "head", State: runstate.NodeAlive, Host: "cpu1", Allocation: "head.1", Joined: at(2)},
			{Name: "trainer-0", Group: "trainer", State: runstate.NodeAlive, Host: "gpu1", Allocation: "gang.1", Joined: at(21)},
			{Name: "trainer-1", Group: "trainer", State: runstate.NodeAlive, Host: "gpu2", Allocation: "gang.1", Joined: at(21)},
			{Name: "rollout-0", Group: "rollout", State: runstate.NodeAlive, Host: "gpu3", Allocation: "rollout-0.2", Joined: at(28)},
		},
		GPUs: []runstate.GPUUse{
			{Node: "trainer-0", Count: 8, Seconds: 4800, BusySeconds: 3600}, {Node: "trainer-1", Count: 8, Seconds: 4800, BusySeconds: 1200},
			{Node: "rollout-0", Count: 2, Message: "there is neither libnvidia-ml.so.1 nor nvidia-smi"},
		},
	}, {
		Name: "ended", Launcher: localspec.Name, Ours: true, Phase: runstate.Gone, Created: apptest.Begin, Since: gone,
		Groups: []runstate.Group{{Name: "head", Wanted: 1}, {Name: "w", Wanted: 2, GPUs: 4, Min: 2, Max: 3}}, Exit: &runstate.Exit{Origin: runstate.OriginDriver, Cause: runstate.CauseSucceeded},
		Job: &runstate.Job{SubmissionID: "ended-1", State: runstate.JobSucceeded, Entrypoint: "python a.py"},
		Allocations: []runstate.Allocation{
			{ID: "main.1", Purpose: runstate.PurposeMain, Groups: map[string]int{"head": 1, "w": 2}, State: runstate.AllocationReleased, Queued: at(0), Granted: at(10), Released: &gone, Message: "it ended with its cluster"},
			{ID: "w-2.1", Purpose: runstate.PurposeElastic, Groups: map[string]int{"w": 1}, State: runstate.AllocationReleased, Queued: at(15), Granted: at(20), Released: at(30), Message: "nothing needed it any more"},
		},
		GPUs: []runstate.GPUUse{{Node: "w-0", Count: 4, Seconds: 12000, BusySeconds: 6000}},
		Timeline: []runstate.Event{
			{At: apptest.Begin, Kind: runstate.EventPhase, To: "Queued"}, {At: *at(10), Kind: runstate.EventPhase, To: "Starting"}, {At: *at(11), Kind: runstate.EventPhase, To: "Ready"},
			{At: *at(12), Kind: runstate.EventJob, To: string(runstate.JobRunning)}, {At: *at(58), Kind: runstate.EventJob, To: string(runstate.JobSucceeded)},
			{At: *at(59), Kind: runstate.EventPhase, To: "Draining"}, {At: gone, Kind: runstate.EventPhase, To: "Gone"},
		},
	}}
}

// TestSeveralAllocations: what status -v, ls and history print of them; RAYCTL_UPDATE_GOLDEN=1 writes it anew.
func TestSeveralAllocations(t *testing.T) {
	golden := filepath.Join("testdata", "allocations.txt")
	var text strings.Builder
	for _, args := range []string{"status -v living", "ls -a -o wide", "history", "history -o json"} {
		apptest.OwnHome(t)
		a, out, said := apptest.New()
		a.Now = func() time.Time { return apptest.Begin.Add(30 * time.Minute) }
		a.Launchers[localspec.Name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) {
			return listing{&apptest.Launcher{}, severalAllocations()}, nil
		}
		verbs := []func(*app.App) *cobra.Command{NewStatus, NewLs, NewHistory}
		if code := a.Execute(t.Context(), apptest.Tree(verbs...), strings.Fields(args)); code != 0 {
			t.Errorf("%s: code %d: %s", args, code, said)
		}
		text.WriteString("$ rayctl " + args + "\n" + out.String())
	}
	if os.Getenv("RAYCTL_UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Error(diff)
	}
}
