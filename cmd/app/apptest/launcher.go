package apptest

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

// Begin is when the first cluster of a Launcher is made. Each further one is made a minute later.
var Begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Launcher is a launcher in memory. It keeps the promises of launcher.Launcher's comments, which launcher/conformance checks on the real launchers:
//   - Launch of a name that exists returns that cluster if the spec is the same, ErrConflict if it is another one, and ErrEnded if the cluster has ended and
//     is not forgotten.
//   - Watch sends the present status at once, then one at each change, and closes the channel after the phase Gone.
//   - Dial returns ErrNotReady before the cluster is ready, and ErrNotFound once it has ended.
//   - Result returns ErrNotEnded while the cluster lives.
//   - Terminate of a cluster that does not exist is no error.
//
// Exec runs a node's commands on this machine, as the local launcher does. Unlike on the real launchers, a cluster with a job has ended when Launch returns, unless
// Waits is set.
type Launcher struct {
	// Title is what Name returns; "" stands for "local".
	Title string
	// Output and Code are those of every driver; a Code of 0 succeeds.
	Output string
	Code   int
	// Waits leaves every new cluster in phase Queued.
	Waits bool
	// Refusal is the error of Launch and Validate, Failure that of List; nil: none.
	Refusal, Failure error
	// Closed is the error of ReachNode; nil: none.
	Closed error
	// Checks is what Check returns, Garbage what Reconcile returns.
	Checks  []launcher.Check
	Garbage []launcher.Collected
	// Cached is what Environments returns; CollectEnvironments removes all of it.
	Cached []launcher.Environment
	// Calls are the calls that change something, in order: "launch dev", "terminate dev", "terminate dev now", "forget dev".
	Calls []string
	// Kept is what is kept of jobs that were submitted to ended clusters, by the path of its file.
	Kept map[string]string
	// Results is the output directory of ended runs.
	Results string
	// FilesEnd is the value of that name in what Properties returns.
	FilesEnd string
	// File is the accepted file of living clusters; its worker groups are elastic and have no node. nil: no file is kept. Set it before With.
	File *spec.ClusterSpec
	// Missing are the gaps of the output of clusters with a job.
	Missing [][2]int64
	// Ray answers as the dashboard and the keeper of every cluster.
	Ray *Ray

	mutex    sync.Mutex
	server   *httptest.Server
	clusters map[string]*cluster
}

type cluster struct {
	launcher.Status
	changed chan struct{} // closed by the next change
}

// With adds clusters as their names say, and returns l:
//   - "old" has ended: its driver succeeded, or failed with l.Code.
//   - "killed" has ended as well, but its keeper was killed and has written no result: Status.Due has the end to conclude it with.
//   - "queued" waits for resources.
//   - "uncommitted" does so, too, and its client has died before the commit.
//   - "theirs" is ready and belongs to another user.
//   - All others, such as "dev", are ready.
//
// Those that have ended had a job, the others have none.
func (l *Launcher) With(names ...string) *Launcher {
	for _, name := range names {
		phase := runstate.Ready
		switch name {
		case "old", "killed":
			phase = runstate.Gone
		case "queued", "uncommitted":
			phase = runstate.Queued
		}
		l.add(&spec.ClusterSpec{Name: name, Labels: map[string]string{"team": name}}, phase)
	}
	return l
}

func (l *Launcher) add(s *spec.ClusterSpec, phase runstate.Phase) {
	if l.clusters == nil {
		l.clusters = map[string]*cluster{}
	}
	at := Begin.Add(time.Duration(len(l.clusters)) * time.Minute)
	c := &cluster{changed: make(chan struct{}), Status: launcher.Status{
		Name: s.Name, Launcher: l.Name(), Owner: "ann", Labels: s.Labels, Ours: true, SpecHash: spec.Hash(s), Where: "memory",
		Phase: phase, Since: at, Created: at, Attempt: 1, Groups: []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}},
		Nodes: []runstate.Node{{Name: "head-0", State: "ALIVE", Host: "here"}}, Head: runstate.Head{RayVersion: "2.60.0"},
		Timeline: []runstate.Event{{At: at, Attempt: 1, Kind: "phase", To: "Ready"}},
	}}
	if l.File != nil {
		for _, w := range l.File.Workers {
			c.Groups = append(c.Groups, runstate.Group{Name: w.Name, Max: 4})
		}
	}
	if s.Name == "theirs" { // see With
		c.Owner, c.Theirs = "bob@laptop", true
	}
	c.Uncommitted = s.Name == "uncommitted"
	if phase == runstate.Queued {
		c.Timeline = nil
		c.Groups[0].Ready, c.Reason = 0, runstate.Reason{Message: "waiting for resources", Hint: "ask for less"}
	}
	if s.Job.Entrypoint != "" || phase.Ended() {
		c.Job = &runstate.Job{SubmissionID: s.Name + "-1", Entrypoint: s.Job.Entrypoint, State: runstate.JobRunning}
	}
	if c.Job != nil {
		c.Job.OutputDir = l.Results
		if !phase.Ended() {
			c.Job.Missing = l.Missing
		}
	}
	if phase.Ended() {
		c.end(l.driverExit())
	}
	if s.Name == "killed" {
		c.Due = &launcher.End{Cause: runstate.CauseLost, Message: "the keeper was killed"}
	}
	l.clusters[s.Name] = c
}

func (l *Launcher) driverExit() runstate.Exit {
	if l.Code == 0 {
		return runstate.Exit{Origin: runstate.OriginDriver, Cause: runstate.CauseSucceeded, Message: "the driver succeeded"}
	}
	return runstate.Exit{Origin: runstate.OriginDriver, Cause: runstate.CauseDriverFailed, Code: l.Code, Message: "the driver failed"}
}

func (c *cluster) end(exit runstate.Exit) {
	c.Phase, c.Exit, c.Since = runstate.Gone, &exit, c.Created.Add(30*time.Second)
	if c.Job != nil {
		c.Job.State = runstate.JobSucceeded
		if exit.Code != 0 {
			c.Job.State = runstate.JobFailed
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// Name is Title.
func (l *Launcher) Name() string { return cmp.Or(l.Title, localspec.Name) }

// Launch makes a cluster, and runs its job if it has one.
func (l *Launcher) Launch(_ context.Context, s *spec.ClusterSpec, _ launcher.Payload) (launcher.ID, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.Refusal != nil {
		return "", l.Refusal
	}
	id := launcher.ID(s.Name)
	if c := l.clusters[s.Name]; c != nil {
		switch {
		case c.Phase.Ended():
			return "", launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "", "cluster %s has ended", id)
		case c.SpecHash != spec.Hash(s):
			return "", another(id)
		}
		return id, nil
	}
	l.Calls = append(l.Calls, "launch "+s.Name)
	phase := runstate.Ready
	if l.Waits {
		phase = runstate.Queued
	} else if s.Job.Entrypoint != "" {
		phase = runstate.Gone
	}
	l.add(s, phase)
	return id, nil
}

func another(id launcher.ID) error {
	return launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "", "cluster %s has another spec", id)
}

// Watch sends the status at once and then at each change.
func (l *Launcher) Watch(ctx context.Context, id launcher.ID) (<-chan launcher.Status, error) {
	l.mutex.Lock()
	c := l.clusters[string(id)]
	l.mutex.Unlock()
	if c == nil {
		return nil, launcher.NotFound(id)
	}
	out := make(chan launcher.Status)
	go func() {
		defer close(out)
		for {
			l.mutex.Lock()
			s, changed := c.Status, c.changed
			l.mutex.Unlock()
			select {
			case out <- s:
			case <-ctx.Done():
				return
			}
			if s.Phase.Ended() {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// Dial reaches Ray.
func (l *Launcher) Dial(_ context.Context, id launcher.ID, _ launcher.Target) (*launcher.Endpoint, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	c := l.clusters[string(id)]
	switch {
	case c == nil || c.Phase.Ended():
		return nil, launcher.NotFound(id)
	case c.Phase != runstate.Ready || l.server == nil:
		return nil, launcher.ErrNotReady
	}
	return &launcher.Endpoint{URL: l.server.URL, Token: "hush", TokenHeader: "Authorization", Via: "direct"}, nil
}

// Result is the record of an ended cluster.
func (l *Launcher) Result(_ context.Context, id launcher.ID) (*launcher.Result, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	c := l.clusters[string(id)]
	switch {
	case c == nil:
		return nil, launcher.NotFound(id)
	case !c.Phase.Ended():
		return nil, launcher.NotEnded(id)
	}
	r := launcher.NewResult(c.Status, launcher.LogInfo{Bytes: int64(len(l.Output)), Missing: l.Missing}, func(_ context.Context, _ int, offset int64) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(l.Output[min(offset, int64(len(l.Output))):])), nil
	})
	r.Jobs = &launcher.KeptJobs{Dirs: []string{""}, Open: func(_ context.Context, path string) (io.ReadCloser, error) {
		text, there := l.Kept[path]
		if !there {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}}
	return r, nil
}

// Terminate ends a cluster.
func (l *Launcher) Terminate(_ context.Context, id launcher.ID, end launcher.End) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	call := "terminate " + string(id)
	if end.Now {
		call += " now"
	}
	l.Calls = append(l.Calls, call)
	if c := l.clusters[string(id)]; c != nil && !c.Phase.Ended() {
		c.end(*runstate.Ours(end.Cause, end.Message))
	}
	return nil
}

// List returns what sel selects, the oldest first.
func (l *Launcher) List(_ context.Context, sel launcher.Selector) ([]launcher.Status, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.Failure != nil {
		return nil, l.Failure
	}
	var out []launcher.Status
	for name, c := range l.clusters {
		if sel.Matches(c.Status) && (len(sel.Names) == 0 || slices.Contains(sel.Names, name)) {
			out = append(out, c.Status)
		}
	}
	slices.SortFunc(out, func(x, y launcher.Status) int { return x.Created.Compare(y.Created) })
	return out, nil
}

// Render returns one file. A node has one CPU where the file does not say more.
func (l *Launcher) Render(s *spec.ClusterSpec) ([]launcher.File, error) {
	var groups []keeper.Group
	for _, g := range s.NodeGroups() {
		cpus, gpus := max(1, float64(g.CPUs)), float64(g.GPUs)
		groups = append(groups, keeper.Group{Name: g.Name, CPUs: &cpus, GPUs: &gpus})
	}
	if err := orders.FitsGroups(s, groups); err != nil {
		return nil, err
	}
	return []launcher.File{{Name: "script.sh", Content: []byte("launch " + s.Name + ": " + s.Job.Entrypoint)}}, nil
}

// Serve makes Ray answer until the test ends.
func (l *Launcher) Serve(t *testing.T) {
	if l.Ray != nil {
		l.server = httptest.NewServer(l.Ray.handler())
		t.Cleanup(l.server.Close)
	}
}
