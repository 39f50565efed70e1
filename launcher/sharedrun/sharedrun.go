// Package sharedrun reads a run of another user, from the directory of copies that job.shareDir gives to a group (keeper/rayctl_keeper/run/shared.py). It is a
// launcher.Launcher that launches and changes nothing.
package sharedrun

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/trust"
)

// Launcher reads one run.
type Launcher struct {
	dir   string
	owner string
	uid   uint32 // of the owner
}

var _ launcher.Launcher = (*Launcher)(nil)

// Open returns the run that a directory shares, and its name.
func Open(dir string) (*Launcher, launcher.ID, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, "", launcher.Fail(runstate.CodeConfig, err, "change to a directory that exists", "the current directory does not exist any more: %v", err)
	}
	l := &Launcher{dir: dir}
	info, err := os.Stat(dir)
	if err == nil {
		l.owner, l.uid = ownerOf(info)
		_, err = l.state()
	}
	if err != nil {
		return nil, "", l.failed(err)
	}
	return l, launcher.ID(filepath.Base(dir)), nil
}

func (l *Launcher) failed(err error) error {
	var planted *trust.OpenError
	var wrong *keeper.DocumentError
	var known *launcher.ExitError
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &planted):
		return launcher.Fail(runstate.CodeSpec, err, "ask "+l.owner+" what is in "+l.dir, "the shared run cannot be read: %s, and a keeper writes regular files of its own there", planted)
	case errors.As(err, &wrong):
		return launcher.Fail(runstate.CodeSpec, err, "ask "+l.owner+" what is in "+l.dir, "the shared run cannot be read: no keeper wrote %s: %v", wrong.Path, wrong.Err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return launcher.Fail(runstate.CodeSpec, launcher.ErrNotFound, "repeat the command later, or name the run's directory below its owner's job.shareDir", "%s is no shared run, or its cluster has not begun to start", l.dir)
	case errors.Is(err, fs.ErrPermission):
		return launcher.Fail(runstate.CodePermission, err, "its owner must give it to a group that you are in: `chgrp GROUP DIR && chmod 2770 DIR` for the directory of job.shareDir, then the next run has that group", "not permitted to read %s: %v", l.dir, err)
	default:
		return launcher.Fail(runstate.CodeInternal, err, "look on this machine whether the file system of "+l.dir+" answers", "the shared run cannot be read: %v", err)
	}
}

// files are the copies, which another user has written and can replace.
func (l *Launcher) files() keeper.Files {
	return keeper.Files{Open: func(name string) (*os.File, error) { return trust.Open(filepath.Join(l.dir, name), l.uid) }}
}

// state reads the documents.
func (l *Launcher) state() (*runstate.State, error) {
	st, err := l.files().State()
	if err != nil {
		return nil, l.failed(err)
	}
	return st, nil
}

// status leaves out what leads into the cluster: only its owner can use that.
func (l *Launcher) status(st *runstate.State) launcher.Status {
	s := launcher.StatusOf(st)
	s.Ours, s.Theirs, s.Owner, s.Where = false, true, l.owner, "of "+l.owner+", shared in "+l.dir
	s.Head = runstate.Head{RayVersion: s.Head.RayVersion, FastStart: s.Head.FastStart}
	if len(s.Timeline) > 0 {
		s.Created = s.Timeline[0].At
	}
	return s
}

// Name is the word for it where launchers are named.
func (l *Launcher) Name() string { return "shared" }

// Every is the keeper's own pace of the copies (SHARE_EVERY of keeper/rayctl_keeper/run/shared.py).
const Every = 2 * time.Second

// Watch looks for changes until the run has ended.
func (l *Launcher) Watch(ctx context.Context, _ launcher.ID) (<-chan launcher.Status, error) {
	st, err := l.state()
	if err != nil {
		return nil, err
	}
	out := make(chan launcher.Status)
	go func() {
		defer close(out)
		for last := int64(-1); ctx.Err() == nil; sleep.For(ctx, Every) {
			if next, err := l.state(); err == nil {
				st = next
			}
			if st.Revision != last {
				select {
				case out <- l.status(st):
				case <-ctx.Done():
					return
				}
				last = st.Revision
			}
			if st.Exit != nil {
				return
			}
		}
	}()
	return out, nil
}

// Result is the end of the run.
func (l *Launcher) Result(context.Context, launcher.ID) (*launcher.Result, error) {
	st, err := l.state()
	if err != nil {
		return nil, err
	}
	if st.Exit == nil {
		return nil, launcher.Fail(runstate.CodeSpec, launcher.ErrNotEnded, "wait for its end", "%s has not ended", st.Name)
	}
	var info launcher.LogInfo
	if st.Log != nil {
		info = launcher.LogInfo{Bytes: st.Log.Bytes, Missing: st.Log.Missing}
	}
	return launcher.NewResult(l.status(st), info, l.Log), nil
}

// Log opens what is copied of the output of an attempt, 0 being the last, also while the run lives. The reader ends with ctx, however long the file is.
func (l *Launcher) Log(ctx context.Context, attempt int, offset int64) (io.ReadCloser, error) {
	log, err := l.files().OpenLog(attempt, offset)
	if err != nil {
		return nil, l.failed(err)
	}
	return &until{log, ctx}, nil
}

// LogSize is how many bytes are copied of the output of an attempt.
func (l *Launcher) LogSize(ctx context.Context, attempt int) (int64, error) {
	log, err := l.Log(ctx, attempt, 0)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	file, is := log.(*until).ReadCloser.(io.Seeker)
	if !is {
		return 0, nil // there is none
	}
	return file.Seek(0, io.SeekEnd)
}

// FollowLog goes on as the copy grows, until the attempt has ended, or with prepare until job.prepare has.
func (l *Launcher) FollowLog(ctx context.Context, attempt int, offset int64, prepare bool) (io.ReadCloser, bool, error) {
	log, err := l.Log(ctx, attempt, offset)
	if err != nil {
		return nil, false, err
	}
	return &growing{l: l, ctx: ctx, attempt: attempt, prepare: prepare, offset: offset, log: log}, true, nil
}

// growing reads a copy that the keeper goes on with.
type growing struct {
	l       *Launcher
	ctx     context.Context //nolint:containedctx // of the one reader
	attempt int
	prepare bool
	offset  int64
	log     io.ReadCloser
	over    bool // the attempt had ended before the copy was opened
	whole   bool // all that is wanted was read
}

// Read implements io.Reader. It waits until there is something.
func (g *growing) Read(p []byte) (int, error) {
	for !g.whole {
		n, err := g.log.Read(p)
		if n > 0 {
			n = g.within(n)
			g.offset += int64(n)
			return n, nil
		}
		if !errors.Is(err, io.EOF) || g.over {
			return 0, err
		}
		if err := g.again(); err != nil {
			return 0, err
		}
	}
	return 0, io.EOF
}

// within is how many of the next n bytes are wanted.
func (g *growing) within(n int) int {
	if !g.prepare {
		return n
	}
	st, err := g.l.state()
	if err != nil || st.Job == nil || st.Attempt != g.attempt || st.Job.LogBegin == runstate.AllPrepare {
		return n
	}
	left := max(0, st.Job.LogBegin-g.offset)
	g.whole = left <= int64(n)
	return int(min(int64(n), left))
}

// again opens the copy once more: the keeper may have begun it anew, or given it the name of an attempt that has ended.
func (g *growing) again() error {
	st, err := g.l.state()
	if err != nil {
		return err
	}
	g.over = st.Exit != nil || st.Attempt > g.attempt || g.prepare && st.Job != nil && st.Job.LogBegin != runstate.AllPrepare
	if !g.over {
		sleep.For(g.ctx, Every)
	}
	log, err := g.l.Log(g.ctx, g.attempt, g.offset)
	if err != nil {
		return err
	}
	_ = g.log.Close()
	g.log = log
	return nil
}

// Close implements io.Closer.
func (g *growing) Close() error { return g.log.Close() }

// until reads while its context lives.
type until struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // of the one reader
}

// Read implements io.Reader.
func (u *until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.ReadCloser.Read(p)
}

// List has the run.
func (l *Launcher) List(_ context.Context, sel launcher.Selector) ([]launcher.Status, error) {
	st, err := l.state()
	if err != nil || !sel.Matches(l.status(st)) {
		return nil, err
	}
	return []launcher.Status{l.status(st)}, nil
}

func (l *Launcher) refuse(what string) error {
	return launcher.Fail(runstate.CodePermission, nil, "ask "+l.owner, "%s is a shared run of %s: it can be read, but not %s", l.dir, l.owner, what)
}

// Launch is refused.
func (l *Launcher) Launch(context.Context, *spec.ClusterSpec, launcher.Payload) (launcher.ID, error) {
	return "", l.refuse("launched")
}

// Dial is refused.
func (l *Launcher) Dial(context.Context, launcher.ID, launcher.Target) (*launcher.Endpoint, error) {
	return nil, l.refuse("connected to")
}

// Terminate is refused.
func (l *Launcher) Terminate(context.Context, launcher.ID, launcher.End) error {
	return l.refuse("ended")
}

// Render is refused.
func (l *Launcher) Render(*spec.ClusterSpec) ([]launcher.File, error) {
	return nil, l.refuse("rendered")
}

// RenderNetwork is refused.
func (l *Launcher) RenderNetwork(*spec.ClusterSpec) ([]launcher.File, error) {
	return nil, l.refuse("rendered")
}

// Validate is refused.
func (l *Launcher) Validate(context.Context, *spec.ClusterSpec, launcher.Payload) error {
	return l.refuse("launched")
}

// Exec is refused.
func (l *Launcher) Exec(context.Context, launcher.ID, launcher.ExecRequest) (int, error) {
	return 0, l.refuse("connected to")
}

// DialNode is refused.
func (l *Launcher) DialNode(context.Context, launcher.ID, string, int) (net.Conn, error) {
	return nil, l.refuse("connected to")
}

// ReachNode is refused.
func (l *Launcher) ReachNode(context.Context, launcher.ID, string) error {
	return l.refuse("connected to")
}

// FindTools finds none.
func (l *Launcher) FindTools(context.Context, launcher.ID) (string, error) { return "", nil }

// Accepted is refused.
func (l *Launcher) Accepted(context.Context, launcher.ID) (*spec.ClusterSpec, error) {
	return nil, l.refuse("changed")
}

// Accept is refused.
func (l *Launcher) Accept(context.Context, launcher.ID, *spec.ClusterSpec) error {
	return l.refuse("changed")
}

// Extended is refused.
func (l *Launcher) Extended(context.Context, launcher.ID, runstate.Deadlines) error {
	return l.refuse("extended")
}

// Forget is refused.
func (l *Launcher) Forget(context.Context, launcher.ID) error { return l.refuse("removed") }

// Reconcile does nothing: all of it is its owner's.
func (l *Launcher) Reconcile(context.Context, launcher.Scope) ([]launcher.Collected, error) {
	return nil, nil
}

// Examine has nothing beside the status and the output.
func (l *Launcher) Examine(context.Context, launcher.ID, launcher.Evidence) {}

// Check finds nothing to examine.
func (l *Launcher) Check(context.Context, *spec.ClusterSpec) []launcher.Check { return nil }

// Properties are none: nobody else reaches the run's hosts.
func (l *Launcher) Properties() launcher.Properties { return launcher.Properties{} }

// Notes has none.
func (l *Launcher) Notes(*spec.ClusterSpec) []string { return nil }

// Searches is true: there is one run.
func (l *Launcher) Searches(context.Context, string) bool { return true }

func ownerOf(info fs.FileInfo) (name string, uid uint32) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "somebody", 0
	}
	number := strconv.Itoa(int(st.Uid))
	if u, err := user.LookupId(number); err == nil {
		return u.Username, st.Uid
	}
	return "user " + number, st.Uid
}
