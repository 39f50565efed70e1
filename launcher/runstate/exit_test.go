package runstate

import "testing"

// TestSentence: how a run ended, in one sentence.
func TestSentence(t *testing.T) {
	for want, exit := range map[string]Exit{
		"succeeded":            {Cause: CauseSucceeded},
		"ended by rayctl down": *Ours(CauseDown, "ended by rayctl down"),
		"ended: it is over (down, exit code 130)":        *Ours(CauseDown, "it is over"),
		"ended: down (exit code 130)":                    *Ours(CauseDown, ""),
		"ended: interrupted by the user (exit code 130)": *Ours(CauseInterrupted, "interrupted by the user"),
		"ended: no Ray (start failed, exit code 73)":     *Ours("start-failed", "no Ray"),
		"failed: the driver exited with code 3":          {Cause: CauseDriverFailed, Code: 3},
	} {
		if got := exit.Sentence(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
