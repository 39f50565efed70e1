package onemachine

import (
	"context"
	"io"
	"net"
	"os"
	"strconv"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Dial gives the addresses themselves: both targets listen on this machine's loopback.
func (l *Launcher) Dial(_ context.Context, id launcher.ID, t launcher.Target) (*launcher.Endpoint, error) {
	c, st, err := l.running(id)
	if err != nil {
		return nil, err
	}
	url, token := "", ""
	switch {
	case t == launcher.Keeper:
		url = st.Keeper.URL
		token, err = c.run.Files.Token()
	case st.Head.Session != "": // the dashboard of this round has answered the keeper: its address and token are known
		url = st.Head.Dashboard
		token, _, err = c.run.Files.RayToken(st.Head)
	}
	if url == "" || err != nil {
		return nil, c.notReady(string(t))
	}
	return &launcher.Endpoint{URL: url, Token: token, TokenHeader: "Authorization", Via: "direct"}, nil
}

// running finds a cluster whose keeper lives; ErrNotFound once it has ended, ErrNotReady before.
func (l *Launcher) running(id launcher.ID) (*cluster, *runstate.State, error) {
	c, err := l.open(id)
	if err != nil {
		return nil, nil, err
	}
	how, st, err := c.run.Life()
	switch {
	case err != nil:
		return nil, nil, err
	case how == living:
		return c, st, nil
	case how == beginning:
		return nil, nil, c.notReady("keeper")
	case how == elsewhere:
		return nil, nil, c.notHere()
	default:
		return nil, nil, launcher.Fail(runstate.CodeUnreachable, launcher.ErrNotFound, "`rayctl logs "+c.run.Name+"` shows what it left", "%s has ended", c.run.Name)
	}
}

// DialNode connects to a port of this machine, on which all nodes are.
func (l *Launcher) DialNode(ctx context.Context, id launcher.ID, node string, port int) (net.Conn, error) {
	c, st, err := l.running(id)
	if err != nil {
		return nil, err
	}
	if err := c.hasNode(st, node); err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return nil, launcher.Fail(runstate.CodeUnreachable, err, "check that something listens there", "port %d does not answer: %v", port, err)
	}
	return conn, nil
}

// ReachNode knows nothing against a node of this machine.
func (l *Launcher) ReachNode(context.Context, launcher.ID, string) error { return nil }

// hasNode checks a node's name; "" is the head.
func (c *cluster) hasNode(st *runstate.State, node string) error {
	if node == "" {
		return nil
	}
	known := ""
	for _, n := range st.Nodes {
		if n.Name == node {
			return nil
		}
		known += " " + n.Name
	}
	return launcher.Fail(runstate.CodeUsage, nil, "its nodes are:"+known, "%s has no node %q", c.run.Name, node)
}

// Result is the keeper's final state, or what this launcher wrote for a keeper that was killed.
func (l *Launcher) Result(ctx context.Context, id launcher.ID) (*launcher.Result, error) {
	c, err := l.open(id)
	if err != nil {
		return nil, err
	}
	how, st, err := c.run.Life()
	open := c.openLog
	if err == nil && how == orphaned {
		if _, last, dead := l.leftBehind(c.run.Name); dead {
			how, st = ended, c.concluded(last, lost())
			open, err = c.readSaved(st)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case how == missing:
		return nil, launcher.NotFound(id)
	case how != ended:
		return nil, launcher.NotEnded(c.run.ID())
	}
	info := launcher.LogInfo{Path: c.run.Path(keeper.DriverLog)}
	if st.Log != nil {
		info.Bytes, info.Missing = st.Log.Bytes, st.Log.Missing
	}
	if _, err := os.Stat(info.Path); err != nil {
		info.Path = "" // the driver never ran
	}
	r := launcher.NewResult(c.status(ended, st), info, open)
	r.Jobs = &launcher.KeptJobs{Dirs: []string{c.run.Dir}, Open: func(_ context.Context, path string) (io.ReadCloser, error) { return os.Open(path) }}
	return r, nil
}

// openLog opens the saved output of an attempt.
func (c *cluster) openLog(_ context.Context, attempt int, offset int64) (io.ReadCloser, error) {
	return c.run.Files.OpenLog(attempt, offset)
}

// readSaved opens the output of a cluster that is not concluded yet, and notes in st what there is of it.
func (c *cluster) readSaved(st *runstate.State) (launcher.LogOpener, error) {
	last, err := c.run.Saved(st.Job)
	if err != nil {
		return nil, err
	}
	st.Log = last.Log()
	return func(ctx context.Context, attempt int, offset int64) (io.ReadCloser, error) {
		if attempt == 0 || attempt == st.Attempt {
			return last.Open(offset)
		}
		return c.openLog(ctx, attempt, offset)
	}, nil
}
