//go:build linux

package chaos

import (
	"github.com/rayctl/rayctl/launcher/runstate"
)

// earlyFaults are those of every substrate with a queue. all are the world's faults.
func earlyFaults(all map[string]fault) map[string]fault {
	out := map[string]fault{
		"prepare fails": {closed: true, prepare: "until [ -e BOOK/go ]; do sleep 0.1; done; echo no such model; exit 9", causes: []string{"prepare-failed"},
			strike: func(r *runningCase) bool {
				r.book.write("go")
				return true
			}},
		"down while prepare hangs": {closed: true, prepare: "sleep 600", strike: all["down"].strike, causes: all["down"].causes},
		"down --now while prepare hangs": {closed: true, prepare: "trap '' TERM; echo prepared; while :; do sleep 1; done", strike: all["down --now"].strike,
			causes: all["down --now"].causes, lossy: true},
	}
	for _, name := range []string{"client killed", "down", "down --now", "second client"} {
		out[name+" while the gang waits"] = whileGangWaits(all[name])
	}
	return out
}

// gangWorld is a substrate on which the queue of gangs can be closed.
type gangWorld interface {
	// hold sets whether the queue has room for nothing.
	hold(closed bool)
	// besideGang strikes when the gang runs.
	besideGang(strike func(*runningCase) bool) func(*runningCase) bool
}

// aroundGrant adds to out the faults of all that are named: those that strike while the gang waits, and those that strike in the moment in which it begins.
func aroundGrant(w gangWorld, out, all map[string]fault, waiting, granted []string) {
	for _, name := range waiting {
		out[name+" while the gang waits"] = whileGangWaits(all[name])
	}
	for _, name := range granted {
		f := whileGangWaits(all[name])
		strike := w.besideGang(f.strike)
		f.strike = func(r *runningCase) bool {
			w.hold(false)
			return strike(r)
		}
		out[name+" when the gang is granted"] = f
	}
}

// whileGangWaits is a fault that strikes while the gang waits.
func whileGangWaits(f fault) fault {
	f.closed = true
	return f
}

// hangsFirst is a job.prepare that only ends in a later attempt.
const hangsFirst = "test $RAYCTL_ATTEMPT != 1 || exec sleep 600; echo prepared"

// awaitGang returns when the gang waits in its queue, and reports whether it does.
func (r *runningCase) awaitGang() bool {
	return r.until(patience, func() bool { return r.gang() == "queued" })
}

// gang is the state of the newest allocation for the gang.
func (r *runningCase) gang() string {
	all := runstate.Of(r.status().Allocations, runstate.PurposeGang)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].State
}
