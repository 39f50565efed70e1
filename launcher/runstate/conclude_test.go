package runstate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestConclude: an end that a keeper had begun when it was lost is the run's, and a driver's exit code is never lost with it.
func TestConclude(t *testing.T) {
	three, zero := 3, 0
	lost := runstate.Exit{Origin: "rayctl", Cause: "lost", Code: runstate.CodeLost, Message: "killed", Retryable: true, By: "me@here"}
	for name, test := range map[string]struct {
		phase          runstate.Phase
		cause, message string
		code           *int // the driver's
		want           runstate.Exit
	}{
		"running":        {runstate.Ready, "", "", nil, lost},
		"driver failed":  {runstate.Draining, "driver-failed", "code 3", &three, runstate.Exit{Origin: "driver", Cause: "driver-failed", Code: 3, Message: "code 3", By: "me@here"}},
		"succeeded":      {runstate.Draining, "succeeded", "it did", &zero, runstate.Exit{Origin: "driver", Cause: "succeeded", Message: "it did", By: "me@here"}},
		"not prepared":   {runstate.Draining, "prepare-failed", "code 3", &three, runstate.Exit{Origin: "prepare", Cause: "prepare-failed", Code: 3, Message: "code 3", By: "me@here"}},
		"code not known": {runstate.Draining, "driver-failed", "code 3", nil, lost},
		"down":           {runstate.Draining, "down", "by hand", nil, runstate.Exit{Origin: "rayctl", Cause: "down", Code: 130, Message: "by hand; meanwhile killed", By: "me@here"}},
		"idle":           {runstate.Draining, "idle", "idle", nil, runstate.Exit{Origin: "rayctl", Cause: "idle", Message: "idle; meanwhile killed", By: "me@here"}},
		"lost already":   {runstate.Draining, "lost", "the head", nil, lost},
		"by a signal":    {runstate.Draining, "interrupted", "the keeper received SIGTERM", nil, lost},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Unix(100, 0)
			st := &runstate.State{
				Revision: 7, Attempt: 2, Phase: test.phase, Reason: runstate.Reason{Code: test.cause, Message: test.message},
				Timeline: []runstate.Event{{At: begun}}, Attempts: []runstate.Attempt{{Attempt: 1}},
				Job: &runstate.Job{SubmissionID: "x-2", ExitCode: test.code, Prepare: &runstate.Prepare{ExitCode: test.code}},
			}
			// Clocks differ: what is concluded is never before what the keeper wrote.
			st = runstate.Conclude(st, runstate.Verdict{Cause: "lost", Message: "killed", At: begun.Add(-time.Minute), By: "me@here"})
			if *st.Exit != test.want {
				t.Errorf("got %+v, want %+v", *st.Exit, test.want)
			}
			last := runstate.Event{At: begun, Attempt: 2, Kind: "phase", To: "Gone", Code: st.Exit.Cause, Message: st.Exit.Message}
			if st.Revision != 8 || st.Phase != runstate.Gone || st.Since != begun || st.Reason.Code != st.Exit.Cause || st.Timeline[1] != last {
				t.Errorf("%+v", st)
			}
			if n := len(st.Attempts); n != 2 || st.Attempts[1].SubmissionID != "x-2" || (st.Attempts[1].ExitCode != nil) != (test.want.Origin != "rayctl") {
				t.Errorf("%+v", st.Attempts)
			}
		})
	}
}

// TestFinal: what can never succeed is not to be tried again, whatever its cause. A result that is overruled keeps its attempts.
func TestFinal(t *testing.T) {
	st := runstate.Conclude(&runstate.State{}, runstate.Verdict{Cause: runstate.CauseStartFailed, Message: "no such partition", Final: true})
	if st.Exit.Retryable || st.Exit.Code != runstate.CodeStartFailed || len(st.Attempts) != 0 {
		t.Errorf("%+v", st)
	}
	st.Attempts = []runstate.Attempt{{Attempt: 1, Cause: "lost"}}
	runstate.Overrule(st, runstate.Verdict{Cause: runstate.CauseQueue, Message: "in vain"})
	if !st.Exit.Retryable || st.Exit.Code != runstate.CodeQueueTimeout || st.Reason.Code != "queue" || st.Attempts[0].Cause != "queue" {
		t.Errorf("%+v", st)
	}
}

// TestCauses: each has a meaning and a name of its own.
func TestCauses(t *testing.T) {
	var names []string
	for _, c := range runstate.Causes {
		if c.Meaning == "" || slices.Contains(names, c.Name) || c.Origin != "" && (c.Code != 0 || c.Retryable) {
			t.Errorf("%+v", c)
		}
		names = append(names, c.Name)
	}
}
