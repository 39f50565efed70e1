package launcher_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestGPUsAreCounted follows a keeper's GPU counts through status and result to the receipt.
func TestGPUsAreCounted(t *testing.T) {
	var st runstate.State
	document := `{"name": "a", "groups": [{"name": "head", "ready": 1, "wanted": 1, "gpus": 0}, {"name": "trainer", "ready": 1, "wanted": 2, "gpus": 4}]}`
	if err := json.Unmarshal([]byte(document), &st); err != nil {
		t.Fatal(err)
	}
	s := launcher.StatusOf(&st)
	if g := s.Groups[1]; g != (runstate.Group{Name: "trainer", Ready: 1, Wanted: 2, GPUs: 4}) {
		t.Errorf("%+v", g)
	}
	s.Created = time.Unix(100, 0)
	s.Timeline = []runstate.Event{{At: s.Created, Kind: "phase", To: string(runstate.Provisioning)}}
	s.Since, s.Phase = s.Created.Add(10*time.Second), runstate.Gone
	u := launcher.NewReceipt(launcher.NewResult(s, launcher.LogInfo{}, nil)).Usage
	if u.Nodes != 3 || u.GPUs != 8 || u.GPUSeconds != 80 {
		t.Errorf("%+v", u)
	}
}

// TestEndedStatus: what a keeper saw last of nodes and job is not what is there once the cluster has ended.
func TestEndedStatus(t *testing.T) {
	own := runstate.Ours
	for name, c := range map[string]struct {
		last runstate.JobState
		exit *runstate.Exit
		want runstate.JobState
	}{
		"down while it ran":      {runstate.JobRunning, own(runstate.CauseDown, ""), runstate.JobStopped},
		"down while it waited":   {runstate.JobWaiting, own(runstate.CauseDown, ""), runstate.JobNotSubmitted},
		"lost":                   {runstate.JobRunning, own(runstate.CauseLost, ""), runstate.JobFailed},
		"its code is known":      {runstate.JobRunning, &runstate.Exit{Origin: runstate.OriginDriver, Cause: runstate.CauseDriverFailed, Code: 3}, runstate.JobFailed},
		"its success is known":   {runstate.JobRunning, &runstate.Exit{Origin: runstate.OriginDriver, Cause: runstate.CauseSucceeded}, runstate.JobSucceeded},
		"Ray's own word":         {runstate.JobSucceeded, own(runstate.CauseDown, ""), runstate.JobSucceeded},
		"a record without cause": {runstate.JobPending, nil, runstate.JobStopped},
	} {
		t.Run(name, func(t *testing.T) {
			st := &runstate.State{
				Phase: runstate.Gone, Exit: c.exit, Job: &runstate.Job{SubmissionID: "a-1", State: c.last},
				Submissions: []runstate.Submission{{SubmissionID: "b"}},
				Nodes:       []runstate.Node{{Name: "head-0", State: runstate.NodeAlive}, {Name: "w-0", State: runstate.NodeDead}, {Name: "w-1", State: runstate.NodeStarting}},
			}
			s := launcher.StatusOf(st)
			if s.Job.State != c.want || s.Nodes[0].State != runstate.NodeEnded || s.Nodes[1].State != runstate.NodeDead || s.Nodes[2].State != runstate.NodeEnded || s.Submissions != nil {
				t.Errorf("%+v, %+v", s.Job, s.Nodes)
			}
			if st.Job.State != c.last || st.Nodes[0].State != runstate.NodeAlive {
				t.Error("the keeper's state was changed")
			}
			st.Phase = runstate.Draining
			if s := launcher.StatusOf(st); s.Job.State != c.last || s.Nodes[0].State != runstate.NodeAlive {
				t.Errorf("before its end: %+v, %+v", s.Job, s.Nodes)
			}
		})
	}
}

// TestTimelineIsSorted: a start that is reported late is at its own time.
func TestTimelineIsSorted(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	s := launcher.StatusOf(&runstate.State{Timeline: []runstate.Event{
		{At: at(1), Kind: "phase", To: "Ready"}, {At: at(3), Kind: "node", To: "DEAD"}, {At: at(2), Kind: "job", To: "RUNNING"}, {At: at(3), Kind: "job", To: "FAILED"},
	}})
	var got []string
	for _, e := range s.Timeline {
		got = append(got, e.To)
	}
	if want := []string{"Ready", "RUNNING", "DEAD", "FAILED"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestFirstStatus: a keeper's first state document has no phase.
func TestFirstStatus(t *testing.T) {
	if s := launcher.StatusOf(&runstate.State{Name: "a", Attempt: 1}); s.Phase != runstate.Provisioning || s.Reason != launcher.KeeperStarts {
		t.Errorf("%q, %+v", s.Phase, s.Reason)
	}
}
