package local

import (
	"fmt"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/filelock"
	"github.com/rayctl/rayctl/launcher/keeper"
)

// status is the keeper's state with what the record adds. st may be nil.
func (c *cluster) status(how life, st *keeper.State) launcher.Status {
	if st == nil {
		st = &keeper.State{
			Name: c.name, Launcher: c.l.Name(), Attempt: 1, Phase: keeper.PhaseProvisioning, Since: c.record.Created,
			Reason: keeper.Reason{Code: "StartingKeeper", Message: "the keeper is starting"},
		}
	}
	s := launcher.StatusOf(st)
	s.Ours, s.Owner, s.Labels, s.Created = true, c.record.Owner, c.record.Labels, c.record.Created
	s.Where = c.record.Host
	if st.Keeper.PID > 0 && s.Phase != launcher.Gone {
		s.Where = fmt.Sprintf("pid %d", st.Keeper.PID)
	}
	switch how {
	case orphaned:
		s.Phase = launcher.Lost
		s.Reason = launcher.Reason{Code: "KeeperKilled", Message: "the keeper was killed; what is left is being ended"}
	case elsewhere:
		s.Unreachable = c.notHere().Error()
	}
	return s
}

// vanished is the last status of a cluster whose launch was given up.
func (c *cluster) vanished() launcher.Status {
	s := c.status(ended, nil)
	code, _ := launcher.ExitCodeFor(keeper.CauseAbandoned)
	s.Phase, s.Since = launcher.Gone, time.Now().UTC()
	s.Reason = launcher.Reason{Code: keeper.CauseAbandoned, Message: "its launch was given up before it was committed"}
	s.Exit = &launcher.Exit{Origin: keeper.OriginRayctl, Cause: keeper.CauseAbandoned, Code: code, Message: s.Reason.Message, Retryable: true}
	return s
}

// notHere is the error for a cluster of another machine that shares the state directory.
func (c *cluster) notHere() *launcher.ExitError {
	return launcher.Fail(launcher.CodeUnreachable, nil, "run rayctl there, or remove "+c.dir+" if that machine is gone",
		"%s runs on %s, not on this machine", c.name, c.record.Host)
}

// nobodyLaunches says whether no client is at work on the name.
func (l *Launcher) nobodyLaunches(name string) bool {
	lock, err := filelock.Try(l.lockPath(name))
	if err != nil || lock == nil {
		return false
	}
	lock.Release()
	return true
}
