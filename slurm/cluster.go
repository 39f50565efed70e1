package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/remote"
)

// Files of a run's directory, besides the attempts.
const (
	recordFile  = "record.json"
	scriptFile  = "slurm.sh"
	jobFile     = "job"
	currentFile = "current"
	seedDir     = "seed"
	firstDir    = "1"
)

// record says who launched what. Its exclusive creation claims the name.
type record struct {
	Name     string            `json:"name"`
	Owner    string            `json:"owner"` // user@host
	Nonce    string            `json:"nonce"` // in the job's comment
	Created  time.Time         `json:"created"`
	Labels   map[string]string `json:"labels,omitempty"`
	Command  string            `json:"command,omitempty"`
	Python   string            `json:"python"`
	Programs string            `json:"programs"` // directory of the keeper's files
	Spec     *spec.ClusterSpec `json:"spec"`
}

func (r *record) keep() time.Duration { return time.Duration(*r.Spec.Lifetime.Keep) }

// current is what the job says of where it is.
type current struct {
	Attempt string `json:"attempt"` // directory
	Job     int    `json:"job"`
	Node    string `json:"node"`  // Slurm's name of the head's node
	Start   int64  `json:"start"` // Unix time of the allocation; 0 where Slurm does not tell (before 23.02)
}

// cluster is one run and what its files say, at one moment.
type cluster struct {
	l    *Launcher
	name string
	dir  string // of the run

	record    *record // nil: there is none
	age       time.Duration
	committed bool
	job       int // id; 0 until submitted
	current   current
	state     *runstate.State // of the current attempt; nil before the keeper's first word
	stateAge  time.Duration
	result    *runstate.State // nil before the current attempt's end
	resultAge time.Duration
	token     string
	released  time.Time // when Slurm released the nodes of a job that it has ended, or queued again; zero: it is not known
}

// attemptDir is the keeper's run directory of the current attempt.
func (c *cluster) attemptDir() string {
	if c.current.Attempt == "" {
		return c.path(firstDir)
	}
	return c.path(c.current.Attempt)
}

func (c *cluster) path(name ...string) string { return path.Join(append([]string{c.dir}, name...)...) }

func (c *cluster) id() launcher.ID { return launcher.ID(c.name) }

// cluster names the files of a run, without reading them.
func (l *Launcher) cluster(ctx context.Context, name string) (*cluster, error) {
	if len(validation.IsDNS1123Label(name)) > 0 { // also keeps paths in
		return nil, launcher.NotFound(launcher.ID(name))
	}
	dir, _, err := l.arrive(ctx)
	if err != nil {
		return nil, err
	}
	return &cluster{l: l, name: name, dir: path.Join(dir, "runs", name)}, nil
}

// open reads a cluster; ErrNotFound if there is none.
func (l *Launcher) open(ctx context.Context, id launcher.ID) (*cluster, error) {
	c, err := l.cluster(ctx, string(id))
	if err != nil {
		return nil, err
	}
	if err := c.look(ctx); err != nil {
		return nil, err
	}
	if c.record == nil {
		return nil, launcher.NotFound(id)
	}
	return c, nil
}

// watched are the files whose changes matter.
func (c *cluster) watched() []string {
	attempt := c.attemptDir()
	return []string{c.path(recordFile), c.path(firstDir, keeper.CommitFile), c.path(currentFile), path.Join(attempt, keeper.StateFile), path.Join(attempt, keeper.ResultFile)}
}

// look reads the files again.
func (c *cluster) look(ctx context.Context) error {
	if err := c.lookOnce(ctx); err != nil {
		return c.l.cut(err)
	}
	return nil
}

func (c *cluster) lookOnce(ctx context.Context) error {
	before := c.attemptDir()
	paths, token := append(c.watched(), c.path(jobFile)), path.Join(before, keeper.TokenFile)
	files, err := c.l.site.files.Read(ctx, append(paths, token)...)
	if errors.As(err, new(*remote.FileError)) { // a token that cannot be read must not hide how the cluster ends
		files, err = c.l.site.files.Read(ctx, paths...)
	}
	if err != nil {
		return err
	}
	*c = cluster{l: c.l, name: c.name, dir: c.dir, released: c.released}
	if _, err := decode(files, c.path(currentFile), &c.current); err != nil {
		return err
	}
	if c.attemptDir() != before { // it moved on
		return c.lookOnce(ctx)
	}
	var r record
	if found, err := decode(files, c.path(recordFile), &r); err != nil {
		return err
	} else if found && r.Spec != nil && r.Spec.Lifetime.Keep != nil {
		c.record, c.age = &r, files[c.path(recordFile)].Age
	}
	_, c.committed = files[c.path(firstDir, keeper.CommitFile)]
	if c.job, _ = strconv.Atoi(string(files[c.path(jobFile)].Data)); c.job == 0 { // it is not there
		c.job = c.current.Job
	}
	c.token = string(files[token].Data)
	return c.documents(files, before)
}

// documents reads the keeper's.
func (c *cluster) documents(files map[string]remote.Found, dir string) error {
	for _, d := range []struct {
		file string
		into **runstate.State
		age  *time.Duration
	}{{keeper.StateFile, &c.state, &c.stateAge}, {keeper.ResultFile, &c.result, &c.resultAge}} {
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

// abandoned says whether the launch was given up: not committed, and its client is silent.
func (c *cluster) abandoned() bool { return c.record != nil && !c.committed && c.age > orders.Lease }
