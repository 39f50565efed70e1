package rundir

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"strconv"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/remote"
)

// Run is the directory of one run and the contents of its files, at one moment.
type Run struct {
	Root *Root
	Name string
	Dir  string // of the run

	Record    *Record // nil if there is none
	Age       time.Duration
	Committed bool
	JobID     int // of its batch job; 0 until submitted
	Current   Current
	State     *runstate.State // of the current attempt; nil until the keeper has written it
	StateAge  time.Duration
	Result    *runstate.State // nil until the current attempt has ended
	ResultAge time.Duration
	Token     string // of the keeper's API
}

// AttemptDir is the keeper's run directory of the current attempt.
func (r *Run) AttemptDir() string {
	if r.Current.Attempt == "" {
		return r.Path(firstDir)
	}
	return r.Path(r.Current.Attempt)
}

// Path is the absolute path of a file of the run, by its name in the run's directory.
func (r *Run) Path(name ...string) string { return path.Join(append([]string{r.Dir}, name...)...) }

// ID is the run's name, by which launchers identify a cluster.
func (r *Run) ID() launcher.ID { return launcher.ID(r.Name) }

// Watched are the paths of the files that Read reads again when they change.
func (r *Run) Watched() []string {
	attempt := r.AttemptDir()
	return []string{r.Path(recordFile), r.Path(firstDir, keeper.CommitFile), r.Path(currentFile), path.Join(attempt, keeper.StateFile), path.Join(attempt, keeper.ResultFile)}
}

// Read reads the files again.
func (r *Run) Read(ctx context.Context) error {
	if err := r.lookOnce(ctx); err != nil {
		return r.Root.Unreachable(err)
	}
	return nil
}

func (r *Run) lookOnce(ctx context.Context) error {
	before := r.AttemptDir()
	paths := append(r.Watched(), r.Path(jobFile))
	token := path.Join(before, keeper.TokenFile)
	files, err := r.Root.Files.Read(ctx, append([]string{token}, paths...)...)
	if errors.As(err, new(*remote.FileError)) { // an unreadable token must not hide how the cluster has ended
		files, err = r.Root.Files.Read(ctx, paths...)
	}
	if err != nil {
		return err
	}
	*r = Run{Root: r.Root, Name: r.Name, Dir: r.Dir}
	if _, err := decode(files, r.Path(currentFile), &r.Current); err != nil {
		return err
	}
	if r.AttemptDir() != before { // a new attempt began meanwhile
		return r.lookOnce(ctx)
	}
	var record Record
	if found, err := decode(files, r.Path(recordFile), &record); err != nil {
		return err
	} else if found && record.Spec != nil && record.Spec.Lifetime.Keep != nil {
		r.Record, r.Age = &record, files[r.Path(recordFile)].Age
	}
	_, r.Committed = files[r.Path(firstDir, keeper.CommitFile)]
	if r.JobID, _ = strconv.Atoi(string(files[r.Path(jobFile)].Data)); r.JobID == 0 { // the file does not exist yet
		r.JobID = r.Current.Job
	}
	r.Token = string(files[token].Data)
	return r.documents(files, before)
}

// RayTokenPath is the file with the token of the head that r.State names.
func (r *Run) RayTokenPath() string {
	return path.Join(r.AttemptDir(), keeper.RayTokenName(r.State.Head))
}

// RayToken reads the token of the head that r.State names; "" where that head has ended.
func (r *Run) RayToken(ctx context.Context) (string, error) {
	file := r.RayTokenPath()
	files, err := r.Root.Files.Read(ctx, file)
	if err != nil {
		return "", r.Root.Unreachable(err)
	}
	return string(files[file].Data), nil
}

// documents reads the keeper's state and result of the current attempt.
func (r *Run) documents(files map[string]remote.Found, dir string) error {
	for _, d := range []struct {
		file string
		into **runstate.State
		age  *time.Duration
	}{{keeper.StateFile, &r.State, &r.StateAge}, {keeper.ResultFile, &r.Result, &r.ResultAge}} {
		var st runstate.State
		found, err := decode(files, path.Join(dir, d.file), &st)
		if err != nil {
			return err
		}
		if found {
			*d.into, *d.age = &st, files[path.Join(dir, d.file)].Age
		}
	}
	return nil
}

func decode(files map[string]remote.Found, path string, into any) (bool, error) {
	file, there := files[path]
	if !there {
		return false, nil
	}
	if err := json.Unmarshal(file.Data, into); err != nil {
		return true, launcher.Fail(runstate.CodeInternal, err, "remove it", "%s is damaged: %v", path, err)
	}
	return true, nil
}

// Abandoned reports whether the launch was not committed and its client shows no sign of life.
func (r *Run) Abandoned() bool { return r.Record != nil && !r.Committed && r.Age > orders.Lease }

// KeptUntil is the time from which the record may be removed.
func (r *Run) KeptUntil() time.Time {
	return time.Now().Add(-r.ResultAge).Add(max(r.Record.keep(), leastKeep))
}

// Expired reports whether lifetime.keep has passed since the end.
func (r *Run) Expired() bool { return r.Result != nil && time.Now().After(r.KeptUntil()) }

// LastWord is the newest document of the keeper: the result if there is one, else the state; nil if there is none yet.
func (r *Run) LastWord() *runstate.State {
	if r.Result != nil {
		return r.Result
	}
	return r.State
}

// Address is the host:port on which the keeper or the dashboard listens; "" until it listens.
func (r *Run) Address(t launcher.Target) string {
	switch {
	case r.State == nil:
		return ""
	case t == launcher.Keeper:
		return r.State.Keeper.URL
	case r.State.Head.Session != "": // the dashboard of this round has answered the keeper: its address and token are known
		return r.State.Head.Dashboard
	}
	return ""
}

// Host is the name that the batch system has for the machine of a node; the node "" is the head.
func (r *Run) Host(node string) (string, error) {
	known := ""
	for _, n := range r.State.Nodes {
		if n.Name == node {
			return n.Host, nil
		}
		known += " " + n.Name
	}
	if node == "" {
		return r.Current.Node, nil
	}
	return "", launcher.Fail(runstate.CodeUsage, nil, "its nodes are:"+known, "%s has no node %q", r.Name, node)
}
