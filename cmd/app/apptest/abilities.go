package apptest

import (
	"context"
	"net"
	"os/exec"
	"strconv"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Environments is Cached.
func (l *Launcher) Environments(context.Context) ([]launcher.Environment, error) {
	return l.Cached, nil
}

// CollectEnvironments removes all that is cached.
func (l *Launcher) CollectEnvironments(_ context.Context, dryRun bool) (removed []launcher.Collected, err error) {
	for _, e := range l.Cached {
		removed = append(removed, launcher.Collected{What: "environment", Name: e.Dir, Why: "not used"})
	}
	if !dryRun {
		l.Cached = nil
		l.Calls = append(l.Calls, "collect environments")
	}
	return removed, nil
}

// Exec runs a command on this machine.
func (l *Launcher) Exec(ctx context.Context, id launcher.ID, e launcher.ExecRequest) (int, error) {
	l.mutex.Lock()
	c := l.clusters[string(id)]
	l.mutex.Unlock()
	if c == nil || c.Phase.Ended() {
		return 0, launcher.NotFound(id)
	}
	if e.Node != "" && e.Node != "head-0" {
		return 0, launcher.Fail(runstate.CodeSpec, nil, "there are head-0", "cluster %s has no node %q", id, e.Node)
	}
	command := exec.CommandContext(ctx, e.Command[0], e.Command[1:]...)
	command.Stdin, command.Stdout, command.Stderr = e.Stdin, e.Stdout, e.Stderr
	return launcher.CommandCode(command.Run())
}

// ExecOnHost runs a command on this machine.
func (l *Launcher) ExecOnHost(ctx context.Context, e launcher.ExecRequest) (int, error) {
	command := exec.CommandContext(ctx, e.Command[0], e.Command[1:]...)
	command.Stdin, command.Stdout, command.Stderr = e.Stdin, e.Stdout, e.Stderr
	return launcher.CommandCode(command.Run())
}

// DialNode reaches a port of this machine.
func (l *Launcher) DialNode(ctx context.Context, _ launcher.ID, _ string, port int) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// ReachNode knows nothing against a node.
func (l *Launcher) ReachNode(context.Context, launcher.ID, string) error { return l.Closed }

// Examine has nothing.
func (l *Launcher) Examine(context.Context, launcher.ID, launcher.Evidence) {}

// FindTools finds none.
func (l *Launcher) FindTools(context.Context, launcher.ID) (string, error) { return "", nil }

// Properties are those of a launcher on this machine, with FilesEnd.
func (l *Launcher) Properties() launcher.Properties {
	return launcher.Properties{SharedHosts: true, HeadsHere: true, FilesEnd: l.FilesEnd}
}

// Notes has none.
func (l *Launcher) Notes(*spec.ClusterSpec) []string { return nil }

// Searches is true.
func (l *Launcher) Searches(context.Context, string) bool { return true }

// Accepted is File; without one each change of a cluster is a conflict.
func (l *Launcher) Accepted(_ context.Context, id launcher.ID) (*spec.ClusterSpec, error) {
	l.mutex.Lock()
	known := l.clusters[string(id)] != nil
	l.mutex.Unlock()
	switch {
	case l.File != nil:
		return l.File, nil
	case !known:
		return nil, launcher.ErrNotFound
	}
	return nil, another(id)
}

// Accept is not called, as nothing is accepted.
func (l *Launcher) Accept(_ context.Context, id launcher.ID, _ *spec.ClusterSpec) error {
	return another(id)
}

// Extended has nothing to do.
func (l *Launcher) Extended(context.Context, launcher.ID, runstate.Deadlines) error { return nil }

// RenderNetwork returns none.
func (l *Launcher) RenderNetwork(*spec.ClusterSpec) ([]launcher.File, error) { return nil, nil }

// Check is Checks.
func (l *Launcher) Check(context.Context, *spec.ClusterSpec) []launcher.Check { return l.Checks }

// Reconcile is Garbage.
func (l *Launcher) Reconcile(_ context.Context, s launcher.Scope) ([]launcher.Collected, error) {
	if !s.DryRun {
		l.Calls = append(l.Calls, "reconcile")
	}
	return l.Garbage, nil
}

// Validate is Refusal.
func (l *Launcher) Validate(context.Context, *spec.ClusterSpec, launcher.Payload) error {
	return l.Refusal
}

// Forget removes the record of an ended cluster.
func (l *Launcher) Forget(_ context.Context, id launcher.ID) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	c := l.clusters[string(id)]
	switch {
	case c == nil:
		return launcher.NotFound(id)
	case !c.Phase.Ended():
		return launcher.NotEnded(id)
	}
	l.Calls = append(l.Calls, "forget "+string(id))
	delete(l.clusters, string(id))
	return nil
}
