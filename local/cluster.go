package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/proc"
)

// cluster is one run directory and what it says.
type cluster struct {
	keeper.RunDir
	l      *Launcher
	name   string
	dir    string
	record record
}

// life is how a cluster is found.
type life int

const (
	missing   life = iota // no record
	beginning             // the keeper has not said anything yet
	living                // the keeper lives
	orphaned              // the keeper died and left no result
	ended                 // there is a result
	elsewhere             // it belongs to another machine that shares this directory
)

// markerName is the variable in the environment of the keeper and the supervisors; its value is random, and in the record.
const markerName = "RAYCTL_MARK"

// nodeMarkerName is the variable that supervisors give to all that Ray starts; its value is the node's directory.
const nodeMarkerName = "RAYCTL_NODE_DIR"

func (l *Launcher) cluster(name string) *cluster {
	dir := filepath.Join(l.clusters, name)
	return &cluster{RunDir: keeper.RunDir(dir), l: l, name: name, dir: dir}
}

// open finds the cluster of an id; ErrNotFound if there is none.
func (l *Launcher) open(id launcher.ID) (*cluster, error) {
	name := string(id)
	if len(validation.IsDNS1123Label(name)) > 0 { // also keeps paths in
		return nil, launcher.NotFound(id)
	}
	c := l.cluster(name)
	found, err := readJSON(c.path(recordFile), &c.record)
	if err != nil {
		return nil, launcher.Fail(runstate.CodeInternal, err, "look at "+c.dir+" and remove it yourself once nothing of it runs; `rayctl gc` leaves it alone", "the record of %s cannot be read: %v", name, err)
	}
	if !found || c.record.Spec == nil || c.record.Spec.Lifetime.Keep == nil {
		return nil, launcher.NotFound(id)
	}
	return c, nil
}

func (c *cluster) id() launcher.ID { return launcher.ID(c.name) }

func (c *cluster) path(name ...string) string {
	return filepath.Join(append([]string{c.dir}, name...)...)
}

// look reads how the cluster is. The state is nil while there is none.
func (c *cluster) look() (life, *runstate.State, error) {
	st, err := c.state()
	switch {
	case err != nil:
		return missing, nil, err
	case c.record.Host != c.l.host && (st == nil || st.Exit == nil) && !c.isHere():
		return elsewhere, st, nil
	case st == nil && !isDir(c.dir):
		return missing, nil, nil
	case st == nil:
		return beginning, nil, nil
	case c.hasResult():
		return ended, st, nil
	case proc.Alive(st.Keeper.PID, st.Keeper.StartTime):
		return living, st, nil
	case c.hasResult(): //nolint:gocritic // asked again: it ended while we looked
		return c.look()
	default:
		return orphaned, st, nil
	}
}

// isHere says whether processes of the cluster live on this machine, whatever its name is by now: laptops change theirs.
func (c *cluster) isHere() bool {
	ps, err := proc.Marked(c.markers()...)
	return err == nil && len(ps) > 0
}

// state is the keeper's last word; nil before its first.
func (c *cluster) state() (*runstate.State, error) {
	st, err := c.State()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, launcher.Fail(runstate.CodeInternal, err, "", "the state of %s cannot be read: %v", c.name, err)
	}
	return st, nil
}

func (c *cluster) hasResult() bool {
	_, err := os.Stat(c.path(keeper.ResultFile))
	return err == nil
}

// client speaks to the keeper; ErrNotReady before it has an address.
func (c *cluster) client(st *runstate.State) (*keeper.Client, error) {
	token, err := c.Token()
	if err != nil || st == nil || st.Keeper.URL == "" {
		return nil, c.notReady("keeper")
	}
	return keeper.NewClient(keeper.Endpoint{URL: st.Keeper.URL, Token: token}), nil
}

func (c *cluster) notReady(what string) error {
	return launcher.Fail(runstate.CodeUnreachable, launcher.ErrNotReady, "`rayctl status "+c.name+"` says what it waits for", "the %s of %s does not answer yet", what, c.name)
}

// markers find all processes of the cluster, also where the supervisors died too.
func (c *cluster) markers() []string {
	out := []string{markerName + "=" + c.record.Mark}
	for _, dir := range c.nodeDirs() {
		out = append(out, nodeMarkerName+"="+dir)
	}
	return out
}

// nodeDirs lists the temporary directories that supervisors reported.
func (c *cluster) nodeDirs() (dirs []string) {
	for _, logs := range c.logDirs() {
		var report struct{ Directory string }
		if found, err := readJSON(filepath.Join(logs, "report.json"), &report); found && err == nil && report.Directory != "" {
			dirs = append(dirs, report.Directory)
		}
	}
	return dirs
}

// logDirs lists the directories in which supervisors keep what they say and save, one for each node.
func (c *cluster) logDirs() (dirs []string) {
	entries, err := os.ReadDir(c.path(keeper.NodesDir))
	if err != nil {
		return nil // no supervisor has begun
	}
	for _, e := range entries {
		dirs = append(dirs, c.path(keeper.NodesDir, e.Name()))
	}
	return dirs
}
