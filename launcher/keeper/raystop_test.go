//go:build linux

package keeper_test

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
)

// TestRayStop: somebody runs `ray stop` on the host, which ends the Rays of all users whose processes it may end; here the driver does it, and sees no other Ray. The
// node is lost with that cause, and the run begins again, or ends.
func TestRayStop(t *testing.T) {
	needs.Root(t)
	pace.Parallel(t)
	r := newRig(t, `[ $RAYCTL_ATTEMPT = 1 ] || exit 7; echo stops; ray stop; exec sleep 600`, func(o *keeper.Orders) { o.Job.Restarts.NodeFailure = 1 })
	r.wrap = []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	r.start(nil).commit(keeper.Commit{})
	final := r.result()
	if final.Exit.Code != 7 || len(final.Attempts) != 2 {
		t.Errorf("%+v, attempts %+v", final.Exit, final.Attempts)
	}
	if !noted(final, "NodeFailure", "was ended by SIGTERM, which rayctl has not sent: `ray stop` or `pkill`") {
		t.Errorf("the cause is not noted: %+v", final.Timeline)
	}
}
