package keeper_test

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/raytest"
)

// TestRayStop: somebody runs `ray stop` on the host, or another command that ends the Rays of all users whose processes it may end; here the driver does it, and sees no
// other Ray. The node is lost with that cause, and the run begins again, or ends.
func TestRayStop(t *testing.T) {
	needs.Root(t)
	pace.Parallel(t)
	r := newRig(t, raytest.StopsDriver(raytest.Stops, 7), func(o *keeper.Orders) { o.Job.Restarts.NodeFailure = len(raytest.Stops) })
	r.wrap = []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	r.start(nil).commit(keeper.Commit{})
	final := r.result()
	if final.Exit.Code != 7 || len(final.Attempts) != len(raytest.Stops)+1 {
		t.Fatalf("%+v, attempts %+v", final.Exit, final.Attempts)
	}
	for i, stop := range raytest.Stops {
		if said := final.Attempts[i].Message; !stop.Cause.MatchString(said) {
			t.Errorf("after %s: %q, want %q", stop.Command, said, stop.Cause)
		}
	}
}
