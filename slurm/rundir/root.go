package rundir

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"path"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/remote"
)

// Config is where the runs of one user are.
type Config struct {
	// Runner reaches the files.
	Runner remote.Runner
	// Dir is the root directory; ~/ is the home directory there.
	Dir string
	// System is the batch system's name and Option the cluster file's option for Dir, for errors: "Slurm", "slurm.dir".
	System, Option string
	// Script is what the batch script is called in a run's directory.
	Script string
	// Host is what the script is called there by which nodes run their programs.
	Host string
	// Keep are further variables that jobs start with, see Environment.
	Keep []string
	// Logger takes notes for -v.
	Logger *slog.Logger
}

// Root is a directory with all runs of one user, at runs/<name>/, and the keeper's programs.
type Root struct {
	Files  *remote.Files
	config Config
	script string
	log    *slog.Logger

	mu    sync.Mutex
	dir   string // as configured, then absolute
	owner string // user@host there; "" until known
	env   []string
}

// NewRoot returns the root directory. It touches nothing yet.
func NewRoot(c Config) *Root {
	return &Root{Files: remote.NewFiles(c.Runner), config: c, script: c.Script, log: c.Logger, dir: c.Dir}
}

// Dir is the directory as far as it is known: absolute since Locate.
func (r *Root) Dir() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dir
}

// Locate finds where the site's directory is and who we are there.
func (r *Root) Locate(ctx context.Context) (dir, owner string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owner != "" {
		return r.dir, r.owner, nil
	}
	var who struct {
		Home, User, Host string
		Environment      []string
	}
	if err := r.Files.Call(ctx, "hello", map[string]any{"keep": remote.KeptWith(r.config.Keep)}, &who); err != nil {
		return "", "", r.Unreachable(err)
	}
	if rest, home := strings.CutPrefix(r.dir, "~/"); home {
		r.dir = path.Join(who.Home, rest)
	}
	r.owner, r.env = who.User+"@"+who.Host, who.Environment
	return r.dir, r.owner, nil
}

// Unreachable explains an error of the connection to the site's files.
func (r *Root) Unreachable(err error) error {
	if errors.Is(err, remote.ErrCut) {
		return launcher.Fail(runstate.CodeUnreachable, err, remote.Advice(err),
			"the files of the %s site cannot be reached on %s: %v", r.config.System, r.config.Runner, err)
	}
	return err
}

// Environment is what jobs start with: the variables of the machine where the files are, as known since Locate.
func (r *Root) Environment() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.env
}

// Names are those of all runs.
func (r *Root) Names(ctx context.Context) ([]string, error) {
	dir, _, err := r.Locate(ctx)
	if err != nil {
		return nil, err
	}
	names, err := r.Files.Names(ctx, path.Join(dir, "runs"))
	if err != nil {
		return nil, r.Unreachable(err)
	}
	return names, nil
}

// Run names the files of a run, without reading them.
func (r *Root) Run(ctx context.Context, name string) (*Run, error) {
	if len(validation.IsDNS1123Label(name)) > 0 { // also keeps paths in
		return nil, launcher.NotFound(launcher.ID(name))
	}
	dir, _, err := r.Locate(ctx)
	if err != nil {
		return nil, err
	}
	return &Run{Root: r, Name: name, Dir: path.Join(dir, "runs", name)}, nil
}

// leastRun is about what the beginning of a run's directory takes.
const leastRun = 512 << 10

// Room returns why no run's directory can be written. Nothing stays.
func (r *Root) Room(ctx context.Context) error {
	dir, _, err := r.Locate(ctx)
	if err != nil {
		return err
	}
	probe := path.Join(dir, ".room-"+rand.Text())
	err = r.Files.WriteBytes(ctx, probe, make([]byte, leastRun))
	after := context.WithoutCancel(ctx)
	_ = r.Files.Remove(after, probe) // a failed write leaves no file
	_ = r.Files.RemoveEmpty(after, dir)
	if err != nil {
		return r.writeFailed(dir, err)
	}
	return nil
}

// WriteFailed explains why the run's directory cannot be used.
func (r *Run) WriteFailed(err error) error { return r.Root.writeFailed(r.Dir, err) }

// host is the machine whose files these are; until Locate, what reaches it.
func (r *Root) host() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, host, known := strings.Cut(r.owner, "@"); known {
		return host
	}
	return r.config.Runner.String()
}

// writeFailed explains why a directory cannot be used.
func (r *Root) writeFailed(dir string, err error) error {
	var known *launcher.ExitError
	var file *remote.FileError
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &file) && (file.Errno == "ENOSPC" || file.Errno == "EDQUOT"):
		return launcher.Fail(runstate.CodeStartFailed, err, "free some space, or set "+r.config.Option+" to another file system", "no space is left for %s on %s", dir, r.host())
	case errors.Is(err, fs.ErrPermission):
		return launcher.Fail(runstate.CodePermission, err, "set "+r.config.Option+" to a directory you may write to", "not permitted to write %s: %v", dir, err)
	case errors.As(err, &file):
		return launcher.Fail(runstate.CodeConfig, err, "set "+r.config.Option+" to a directory you may write to", "cannot write %s: %v", dir, err)
	default:
		return r.Unreachable(err)
	}
}
