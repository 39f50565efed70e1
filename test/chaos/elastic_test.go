//go:build linux

package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// nodeFaults concern nodes that come and go: the run does not end by them.
func nodeFaults() map[string]fault {
	return map[string]fault{
		"last raylet killed":            {strike: lastRaylet, causes: []string{"lost"}, node: true},
		"autoscaler killed":             {strike: kill("autoscaler/v2/monitor.py", "autoscaler/_private/monitor.py"), causes: []string{"lost"}, node: true},
		"demand flaps":                  {strike: demandFlaps, gentle: true},
		"demand that no group can meet": {strike: demandUnmet, gentle: true},
		"scaled down": {strike: func(r *runningCase) bool {
			return r.rayctl("scale", r.d.run(), fmt.Sprintf("w=%d:%d", r.d.workers, max(1, r.d.workers))).code == 0
		}, gentle: true},
	}
}

// lastRaylet kills the newest raylet; the oldest is the head's.
func lastRaylet(r *runningCase) bool {
	var found []process
	for _, p := range r.processes() {
		if command("/raylet/raylet ")(p) && strings.Contains(p.environ, "RAYCTL_") {
			found = append(found, p)
		}
	}
	return len(found) > 1 && syscall.Kill(found[len(found)-1].pid, syscall.SIGKILL) == nil
}

// demandFlaps: the driver asks for two nodes and gives them up, twenty times. That is no reason for as many allocations.
func demandFlaps(r *runningCase) bool {
	before := r.elasticAllocations()
	if !r.asks("flap") || !r.until(time.Minute, func() bool { return r.book.has("did-flap") }) {
		return false
	}
	if n := r.elasticAllocations() - before; n > 8 {
		r.t.Errorf("%d allocations were requested for demand that flapped", n)
	}
	return true
}

// demandUnmet: a task needs a node that no group has. The status notes that, and the run goes on.
func demandUnmet(r *runningCase) bool {
	if !r.asks("unmet") {
		return false
	}
	noted := r.until(time.Minute, func() bool {
		return strings.Contains(r.rayctl("status", r.d.run(), "-o", "json").out, "no group has such nodes")
	})
	r.book.write("enough")
	if !noted && !r.over() {
		r.t.Errorf("the status has no note of the demand that no group can meet")
	}
	return noted
}

// asks has the driver do something, and returns whether it has begun.
func (r *runningCase) asks(what string) bool {
	r.book.write("ask-" + what)
	return r.until(20*time.Second, func() bool { return r.book.has("doing-" + what) })
}

// demand has the cluster ask for a node if the driver's tasks ask for none within some seconds, as between two bursts; found reports whether it came.
func (r *runningCase) demand(found func() bool) bool {
	if r.until(5*time.Second, found) {
		return true
	}
	return r.rayctl("scale", r.d.run(), fmt.Sprintf("w=%d", r.d.most())).code == 0 && r.until(20*time.Second, found)
}

// until waits for a condition, not longer than the run lasts.
func (r *runningCase) until(limit time.Duration, condition func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end) && !r.over(); time.Sleep(200 * time.Millisecond) {
		if condition() {
			return true
		}
	}
	return false
}

// over reports whether the client has ended.
func (r *runningCase) over() bool {
	select {
	case err := <-r.ended:
		r.ended <- err
		return true
	default:
		return false
	}
}

// status is the run's; without one the zero value.
func (r *runningCase) status() (s launcher.Status) {
	_ = json.Unmarshal([]byte(r.rayctl("status", r.d.run(), "-o", "json").out), &s)
	return s
}

// elasticAllocations is how many were ever requested.
func (r *runningCase) elasticAllocations() int {
	return len(runstate.Of(r.status().Allocations, runstate.PurposeElastic))
}

// repeated are the tasks that were begun more than once.
func (b book) repeated() []string {
	found, _ := filepath.Glob(filepath.Join(string(b), "repeated-*"))
	return found
}

func (b book) write(page string) { _ = os.WriteFile(filepath.Join(string(b), page), nil, 0o644) }
