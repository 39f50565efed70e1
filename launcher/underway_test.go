package launcher_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
)

// TestConclude: an end that a keeper had begun when it was lost is the run's, and a driver's exit code is never lost with it.
func TestConclude(t *testing.T) {
	three, zero := 3, 0
	for name, test := range map[string]struct {
		phase, cause, message string
		code                  *int // the driver's
		want                  keeper.Exit
	}{
		"running":        {"Ready", "", "", nil, keeper.Exit{Origin: "rayctl", Cause: "lost", Code: launcher.CodeLost, Message: "killed", Retryable: true}},
		"driver failed":  {"Draining", "driver-failed", "code 3", &three, keeper.Exit{Origin: "driver", Cause: "driver-failed", Code: 3, Message: "code 3"}},
		"succeeded":      {"Draining", "succeeded", "it did", &zero, keeper.Exit{Origin: "driver", Cause: "succeeded", Message: "it did"}},
		"code not known": {"Draining", "driver-failed", "code 3", nil, keeper.Exit{Origin: "rayctl", Cause: "lost", Code: launcher.CodeLost, Message: "killed", Retryable: true}},
		"down":           {"Draining", "down", "by hand", nil, keeper.Exit{Origin: "rayctl", Cause: "down", Code: launcher.CodeInterrupted, Message: "by hand; meanwhile killed"}},
		"idle":           {"Draining", "idle", "idle", nil, keeper.Exit{Origin: "rayctl", Cause: "idle", Message: "idle; meanwhile killed"}},
		"lost already":   {"Draining", "lost", "the head", nil, keeper.Exit{Origin: "rayctl", Cause: "lost", Code: launcher.CodeLost, Message: "killed", Retryable: true}},
		"by a signal":    {"Draining", "interrupted", "the keeper got SIGTERM", nil, keeper.Exit{Origin: "rayctl", Cause: "lost", Code: launcher.CodeLost, Message: "killed", Retryable: true}},
	} {
		t.Run(name, func(t *testing.T) {
			st := &keeper.State{Phase: test.phase, Reason: keeper.Reason{Code: test.cause, Message: test.message}, Job: &keeper.JobState{ExitCode: test.code}}
			if got := launcher.Conclude(st, "lost", "killed"); *got != test.want {
				t.Errorf("got %+v, want %+v", *got, test.want)
			}
		})
	}
}

// TestCausesAreTheKeepers: what the Go side knows of causes is what the keeper's Python knows.
func TestCausesAreTheKeepers(t *testing.T) {
	c := exec.Command("python3", "-c", "import json, keeper_exit as e; print(json.dumps([e.CODES, e.RETRYABLE]))")
	c.Dir = "../templates"
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var codes map[string]int
	var retryable []string
	if err := json.Unmarshal(out, &[]any{&codes, &retryable}); err != nil || len(codes) == 0 {
		t.Fatal(err, string(out))
	}
	for cause, want := range codes {
		if code, ok := launcher.ExitCodeFor(cause); !ok || code != want {
			t.Errorf("%s: code %d, the keeper's %d", cause, code, want)
		}
		if got, want := launcher.Retryable(cause), slices.Contains(retryable, cause); got != want {
			t.Errorf("%s: retryable %t, the keeper's %t", cause, got, want)
		}
	}
}
