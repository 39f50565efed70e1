package script

import (
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// TestQueueLimit: Slurm itself withdraws a waiting job only if that never ends one that has begun; otherwise the launch reports who does it, and what to change.
func TestQueueLimit(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for name, c := range map[string]struct {
		change   func(*spec.ClusterSpec)
		longest  time.Duration
		deadline string   // of an hour in the queue; "": none
		note     []string // its words
	}{
		"once, with a limit":     {change: func(*spec.ClusterSpec) {}, deadline: "now+50890seconds"},
		"the partition gives it": {change: func(*spec.ClusterSpec) {}, longest: 10 * time.Hour, deadline: "now+39610seconds"},
		"preempted":              {change: func(s *spec.ClusterSpec) { *s.Job.Restarts.Preempted = units.Unlimited }, note: []string{"the job may be queued again", "withdraws it, set job.restarts"}},
		"a node fails":           {change: func(s *spec.ClusterSpec) { s.Job.Restarts.NodeFailure = 1 }, note: []string{"the job may be queued again"}},
		"no limit":               {change: func(s *spec.ClusterSpec) { s.Lifetime.Max = 0 }, note: []string{"the job has no time limit;", "withdraws it, set lifetime.max"}},
		"neither": {change: func(s *spec.ClusterSpec) { *s.Job.Restarts.Preempted, s.Lifetime.Max = 1, 0 },
			note: []string{"the job has no time limit and may be queued again", "set lifetime.max, and job.restarts"}},
		"no queue limit": {change: func(s *spec.ClusterSpec) { s.Lifetime.Queue, s.Lifetime.Max = 0, 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			s := grpo()
			s.Job.Restarts = spec.Restarts{Preempted: new(units.Count)}
			s.Lifetime.Queue, s.Lifetime.Max = units.Limit(time.Hour), units.Limit(13*time.Hour)
			c.change(s)
			p := planFor(s)
			p.longest = c.longest
			if c.longest == 0 {
				p.longest = week
			}
			if got := p.Deadline(); got != c.deadline {
				t.Errorf("deadline %q, want %q", got, c.deadline)
			}
			all := strings.Join(p.Directives(p.Components()[0], true), " ")
			if strings.Contains(all, "--deadline=") != (c.deadline != "") || !strings.Contains(all, c.deadline) || c.deadline != "" && !strings.Contains(all, "--no-requeue") {
				t.Errorf("sbatch gets %s", all)
			}
			note := p.QueueNote()
			if (note != "") != (len(c.note) > 0) {
				t.Errorf("note %q", note)
			}
			for _, words := range c.note {
				if !strings.Contains(note, words) {
					t.Errorf("note %q lacks %q", note, words)
				}
			}
		})
	}
}
