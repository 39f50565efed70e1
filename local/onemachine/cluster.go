package onemachine

import (
	"fmt"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedfile"
)

// cluster is one run of the launcher.
type cluster struct {
	run *runDir
	l   *Launcher
}

// client is a client of the keeper; ErrNotReady before it has an address.
func (c *cluster) client(st *runstate.State) (*keeper.Client, error) {
	token, err := c.run.Files.Token()
	if err != nil || st == nil || st.Keeper.URL == "" {
		return nil, c.notReady("keeper")
	}
	return keeper.NewClient(keeper.Endpoint{URL: st.Keeper.URL, Token: token}), nil
}

func (c *cluster) notReady(what string) error {
	return launcher.Fail(runstate.CodeUnreachable, launcher.ErrNotReady, "`rayctl status "+c.run.Name+"` shows what it waits for", "the %s of %s does not answer yet", what, c.run.Name)
}

func (l *Launcher) cluster(name string) *cluster {
	return &cluster{run: runDirAt(l.clusters, name, l.host), l: l}
}

// open finds the cluster of an id; ErrNotFound if there is none.
func (l *Launcher) open(id launcher.ID) (*cluster, error) {
	run, err := openRunDir(l.clusters, string(id), l.host)
	if err != nil {
		return nil, err
	}
	return &cluster{run: run, l: l}, nil
}

// status is the keeper's state with what the record adds. st may be nil.
func (c *cluster) status(how life, st *runstate.State) launcher.Status {
	if st == nil {
		st = &runstate.State{
			Name: c.run.Name, Launcher: c.l.Name(), Attempt: 1, Phase: runstate.Provisioning, Since: c.run.Record.Created, Reason: launcher.KeeperStarts,
		}
	}
	s := launcher.StatusOf(st)
	s.Uncommitted = !s.Phase.Ended() && !c.run.Files.Committed()
	s.Ours, s.Owner, s.Labels, s.Created = true, c.run.Record.Owner, c.run.Record.Labels, c.run.Record.Created
	if began := c.run.Record.Began; began != nil {
		s.Created = *began
		s.Timeline = append([]runstate.Event{
			{At: *began, Attempt: 1, Kind: runstate.EventEnvironment, To: runstate.EnvironmentMaking, Message: "the Python environment is made, once"},
			{At: c.run.Record.Created, Attempt: 1, Kind: runstate.EventEnvironment, To: runstate.EnvironmentMade},
		}, s.Timeline...)
	}
	s.Where = c.run.Record.Host
	if st.Keeper.PID > 0 && s.Phase != runstate.Gone {
		s.Where = fmt.Sprintf("pid %d", st.Keeper.PID)
	}
	switch how {
	case orphaned:
		s.Phase = runstate.Lost
		s.Reason = runstate.Reason{Code: "KeeperKilled", Message: "the keeper was killed; what is left is being ended"}
	case elsewhere:
		s.Unreachable = c.notHere().Error()
	}
	return s
}

// vanished is the last status of a cluster whose launch was cancelled.
func (c *cluster) vanished() launcher.Status {
	return c.status(ended, c.concluded(nil, runstate.GivenUp()))
}

// notHere is the error for a cluster of another machine that shares the state directory.
func (c *cluster) notHere() *launcher.ExitError {
	return launcher.Fail(runstate.CodeUnreachable, nil, "run rayctl there, or remove "+c.run.Dir+" if that machine does not exist any more",
		"%s runs on %s, not on this machine", c.run.Name, c.run.Record.Host)
}

// nobodyLaunches reports whether no client is at work on the name.
func (l *Launcher) nobodyLaunches(name string) bool {
	lock, err := sharedfile.Try(l.lockPath(name))
	if err != nil || lock == nil {
		return false
	}
	lock.Release()
	return true
}
