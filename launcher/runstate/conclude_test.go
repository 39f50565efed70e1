package runstate_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestConclude: an end that a keeper had begun when it was lost is the run's, and a driver's exit code is never lost with it. The record's pod and the batch script of
// a Slurm job conclude the same cases alike (keeper/tests/state/test_conclude.py).
func TestConclude(t *testing.T) {
	var cases []struct {
		Name    string
		State   json.RawMessage
		Verdict struct {
			Cause, Message, By string
			At                 time.Time
			Final              bool
		}
		Exit     runstate.Exit
		Since    time.Time
		Attempts []runstate.Attempt
	}
	text, err := os.ReadFile(filepath.Join("testdata", "conclude.json"))
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases) <= 15 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, test := range cases {
		t.Run(test.Name, func(t *testing.T) {
			var before, st runstate.State
			if err := errors.Join(json.Unmarshal(test.State, &before), json.Unmarshal(test.State, &st)); err != nil {
				t.Fatal(err)
			}
			v := test.Verdict
			want := before
			want.Revision, want.Phase, want.Since, want.Attempts, want.Exit = before.Revision+1, runstate.Gone, test.Since, test.Attempts, &test.Exit
			want.Reason = runstate.Reason{Code: test.Exit.Cause, Message: test.Exit.Message}
			want.Timeline = append(slices.Clone(before.Timeline), runstate.Event{
				At: test.Since, Attempt: before.Attempt, Kind: runstate.EventPhase, To: string(runstate.Gone), Code: test.Exit.Cause, Message: test.Exit.Message,
			})
			got := runstate.Conclude(&st, runstate.Verdict{Cause: v.Cause, Message: v.Message, At: v.At, By: v.By, Final: v.Final})
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestBySignal: also a keeper of an older rayctl that still runs reports the signal that ended it.
func TestBySignal(t *testing.T) {
	for message, want := range map[string]bool{
		"the keeper received SIGTERM": true, "the keeper was told to end by SIGUSR1": true, "the driver received SIGTERM": false, "": false,
	} {
		if got := runstate.BySignal(message); got != want {
			t.Errorf("%q: %v", message, got)
		}
	}
}

// TestNotTriedAgain: what can never succeed is not to be tried again, whatever its cause. A result that is overruled keeps its attempts.
func TestNotTriedAgain(t *testing.T) {
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
