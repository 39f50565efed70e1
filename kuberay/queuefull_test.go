package kuberay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/pace"
)

// TestQueueFull: the reason of a gang that its queue does not admit names the limit, and the run ends when lifetime.queue has passed.
func TestQueueFull(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	queue := b.tinyQueue(t)
	s := named("crowded", "echo never")
	s.Sections = kuberayspec.In(&kuberayspec.Section{Queue: queue})
	s.Lifetime.Queue = units.Limit(time.Minute)
	r := b.begin(t, b.l, s)
	r.until(t, "word of the queue's limit", func(st launcher.Status) bool {
		return st.Reason.Code == "QueueFull" && strings.Contains(st.Reason.Message, "insufficient cpu")
	})
	r.wantEnd(t, "queue", runstate.CodeQueueTimeout, "")
}
