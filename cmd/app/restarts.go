package app

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// restarts compares the successive statuses of a run. It finds the attempts that ended after the first status and were followed by another attempt.
type restarts struct {
	begun bool
	told  int // number of the last attempt that was reported, or that ended before the first status
	limit *spec.Restarts
}

// news returns a sentence for each attempt that s shows as ended and that was not reported before. It leaves out an attempt without a successor: that is the
// run's end, which the receipt reports.
func (r *restarts) news(s launcher.Status) (sentences []string) {
	used := map[string]int{}
	for _, a := range s.Attempts {
		used[a.Cause]++
		if a.Attempt <= r.told || a.Attempt >= s.Attempt {
			continue
		}
		r.told = a.Attempt
		if r.begun {
			sentences = append(sentences, r.sentence(s.Name, a, used[a.Cause]))
		}
	}
	r.begun = true
	return sentences
}

func (r *restarts) sentence(name string, a runstate.Attempt, used int) string {
	message := strings.Trim(terminal.OneLine(a.Message), ". ")
	ended := "ended" // the substrate or a limit ended it
	if a.Cause == runstate.CauseDriverFailed {
		ended = "failed"
	}
	text := fmt.Sprintf("%s: attempt %d %s: %s; attempt %d begins", name, a.Attempt, ended, cmp.Or(message, strings.ReplaceAll(a.Cause, "-", " ")), a.Attempt+1)
	key, limit := r.allowed(a.Cause)
	switch {
	case key == "":
		return text
	case limit < 0:
		return fmt.Sprintf("%s (restart %d, %s: unlimited)", text, used, key)
	default:
		return fmt.Sprintf("%s (restart %d of %d, %s)", text, used, limit, key)
	}
}

// allowed returns the key of job.restarts that counts attempts with this cause, and the key's value, -1 for unlimited. The key is "" if no key counts them or
// the cluster file is not known.
func (r *restarts) allowed(cause string) (string, int) {
	if r.limit == nil {
		return "", 0
	}
	switch cause {
	case runstate.CauseDriverFailed:
		return "job.restarts.driver", int(r.limit.Driver)
	case runstate.CauseLost:
		return "job.restarts.nodeFailure", int(r.limit.NodeFailure)
	case runstate.CausePreempted:
		if r.limit.Preempted == nil {
			return "job.restarts.preempted", -1
		}
		return "job.restarts.preempted", int(*r.limit.Preempted)
	case runstate.CauseTimeLimit:
		return "job.restarts.timeLimit", int(r.limit.TimeLimit)
	}
	return "", 0
}
