package onemachine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/proc"
)

// runDir is one run directory and its documents.
type runDir struct {
	Files  keeper.RunDir // what client, keeper and supervisors share in it
	Name   string
	Dir    string
	Record record
	host   string // this machine's name
}

// runDirAt names a run below the directory of all runs, without reading it. host is this machine's name.
func runDirAt(runs, name, host string) *runDir {
	dir := filepath.Join(runs, name)
	return &runDir{Files: keeper.RunDir(dir), Name: name, Dir: dir, host: host}
}

// openRunDir reads the record of a run; ErrNotFound if there is none.
func openRunDir(runs, name, host string) (*runDir, error) {
	id := launcher.ID(name)
	if len(validation.IsDNS1123Label(name)) > 0 { // also keeps paths in
		return nil, launcher.NotFound(id)
	}
	r := runDirAt(runs, name, host)
	found, err := readJSON(r.Path(recordFile), &r.Record)
	if err != nil {
		return nil, launcher.Fail(runstate.CodeInternal, err, "look at "+r.Dir+" and remove it yourself once nothing of it runs; `rayctl gc` does not remove it", "the record of %s cannot be read: %v", name, err)
	}
	if !found || r.Record.Spec == nil || r.Record.Spec.Lifetime.Keep == nil {
		return nil, launcher.NotFound(id)
	}
	return r, nil
}

// runNames lists the names of all runs that have a directory.
func runNames(runs string) []string {
	entries, err := os.ReadDir(runs)
	if err != nil {
		return nil // no cluster was launched here yet; if something is wrong, Launch reports it
	}
	return namesOf(entries)
}

func namesOf(entries []os.DirEntry) (out []string) {
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// Exists reports whether the run's directory, or a directory in it, exists.
func (r *runDir) Exists(name ...string) bool {
	info, err := os.Stat(r.Path(name...))
	return err == nil && info.IsDir()
}

// life is the state of a cluster as its record and its processes show it.
type life int

// The values of life.
const (
	missing   life = iota // no record
	beginning             // the keeper has not written its state yet
	living                // the keeper lives
	orphaned              // the keeper died and left no result
	ended                 // there is a result
	elsewhere             // it belongs to another machine that shares this directory
)

// markerName is the variable in the environment of the keeper and the supervisors; its value is random, and in the record.
const markerName = "RAYCTL_MARK"

// nodeMarkerName is the variable in the environment of every process that Ray starts below a supervisor; its value is the node's directory.
const nodeMarkerName = "RAYCTL_NODE_DIR"

// ID is the run's name, by which launchers identify a cluster.
func (r *runDir) ID() launcher.ID { return launcher.ID(r.Name) }

// Path is the path of a file of the run, by its name in the run's directory.
func (r *runDir) Path(name ...string) string {
	return filepath.Join(append([]string{r.Dir}, name...)...)
}

// life returns the cluster's life and the keeper's state, which is nil while there is none.
func (r *runDir) Life() (life, *runstate.State, error) {
	st, err := r.LastState()
	switch {
	case err != nil:
		return missing, nil, err
	case r.Record.Host != r.host && (st == nil || st.Exit == nil) && !r.IsHere():
		return elsewhere, st, nil
	case st == nil && !r.Exists():
		return missing, nil, nil
	case st == nil:
		return beginning, nil, nil
	case r.HasResult():
		return ended, st, nil
	case proc.Alive(st.Keeper.PID, st.Keeper.StartTime):
		return living, st, nil
	case r.HasResult(): //nolint:gocritic // asked again: it ended while we looked
		return r.Life()
	default:
		return orphaned, st, nil
	}
}

// IsHere reports whether processes of the cluster live on this machine, whatever its name is by now: laptops change theirs.
func (r *runDir) IsHere() bool {
	ps, err := proc.Marked(r.Markers()...)
	return err == nil && len(ps) > 0
}

// LastState is the last state that the keeper has written; nil if there is none.
func (r *runDir) LastState() (*runstate.State, error) {
	st, err := r.Files.State()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, launcher.Fail(runstate.CodeInternal, err, "move that file away: `rayctl down "+r.Name+"` ends the cluster without it", "the state of %s cannot be read: %v", r.Name, err)
	}
	return st, nil
}

// HasResult reports whether the run has ended.
func (r *runDir) HasResult() bool {
	_, err := os.Stat(r.Path(keeper.ResultFile))
	return err == nil
}

// Markers are the environment variables by which all processes of the cluster are found, also after its supervisors have died.
func (r *runDir) Markers() []string {
	out := []string{markerName + "=" + r.Record.Mark}
	for _, dir := range r.NodeDirs() {
		out = append(out, nodeMarkerName+"="+dir)
	}
	return out
}

// NodeDirs lists the temporary directories that supervisors reported.
func (r *runDir) NodeDirs() (dirs []string) {
	for _, logs := range r.logDirs() {
		var report struct{ Directory string }
		if found, err := readJSON(filepath.Join(logs, "report.json"), &report); found && err == nil && report.Directory != "" {
			dirs = append(dirs, report.Directory)
		}
	}
	return dirs
}

// spilled is the directory elsewhere in which the node of a temporary directory keeps spilled objects, as keeper/rayctl_keeper/node/files/nodedir.py makes it; "" if
// there is none.
func spilled(nodeDir string) string {
	target, err := os.Readlink(filepath.Join(nodeDir, "s"))
	if err != nil || filepath.Base(target) != filepath.Base(nodeDir) {
		return ""
	}
	return target
}

// logDirs lists the directories, one for each node, in which supervisors write their logs and save Ray's.
func (r *runDir) logDirs() (dirs []string) {
	entries, err := os.ReadDir(r.Path(keeper.NodesDir))
	if err != nil {
		return nil // no supervisor has begun
	}
	for _, e := range entries {
		dirs = append(dirs, r.Path(keeper.NodesDir, e.Name()))
	}
	return dirs
}

// leastKeep is the shortest time for which a record stays, so that a client that watched a cluster with `keep: 0` can read its result.
const leastKeep = time.Minute

// KeptUntil is the time from which the record may be removed.
func (r *runDir) KeptUntil() time.Time {
	info, err := os.Stat(r.Path(keeper.ResultFile))
	if err != nil {
		return time.Now()
	}
	return info.ModTime().Add(max(r.Record.keep(), leastKeep))
}
