package app

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// unmet reports what waits for resources that no node can ever have, once, and again if it is something else.
type unmet struct{ told string }

func (u *unmet) tell(ui *terminal.UI, s launcher.Status) {
	if s.Reason.Code != runstate.ReasonUnmet || s.Reason.Message == u.told {
		return
	}
	u.told = s.Reason.Message
	ui.Note("%s: %s: %s", s.Name, terminal.OneLine(s.Reason.Message), s.Reason.Hint)
}

// unmetLook is how long a job runs before its cluster is watched for it: the head looks as seldom, and a watch costs the substrate requests.
const unmetLook = 20 * time.Second

// TellUnmet reports the same while a job on a cluster is followed, until ctx ends.
func TellUnmet(ctx context.Context, ui *terminal.UI, l launcher.Launcher, id launcher.ID) {
	if !sleep.For(ctx, unmetLook) {
		return
	}
	statuses, err := l.Watch(ctx, id)
	if err != nil {
		return // what follows the job says what is wrong with the cluster
	}
	var u unmet
	for s := range statuses {
		u.tell(ui, s)
	}
}
