package slurm

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"
	"sync"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/remote"
)

// Config says which Slurm is meant.
type Config struct {
	// Runner runs commands where Slurm is, and reaches its files there.
	Runner remote.Runner
	// REST, if set, asks the controller in place of Slurm's commands. The files are the Runner's.
	REST *controller.REST
	// Shared is a file through which processes of this user share the controller's answers. "": they do not.
	Shared string
	// Dir is slurm.dir; ~/ and "" are relative to the home directory there. Default: ~/.rayctl.
	Dir string
	// Logger takes notes for -v; nil: none.
	Logger *slog.Logger
}

// Launcher runs clusters as jobs of one Slurm user. It implements launcher.Launcher, Execer and Forgetter.
type Launcher struct {
	site    *site
	queue   *controller.Queue
	log     *slog.Logger
	tunnels *tunnels

	mu    sync.Mutex
	dir   string // as configured, then absolute
	owner string // user@host there; "" until known
	env   []string
}

var (
	_ launcher.Launcher  = (*Launcher)(nil)
	_ launcher.Execer    = (*Launcher)(nil)
	_ launcher.Forgetter = (*Launcher)(nil)
)

// New returns the launcher. It touches nothing yet.
func New(c Config) *Launcher {
	if c.Runner == nil {
		c.Runner = remote.Here{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Dir == "" {
		c.Dir = "~/.rayctl"
	}
	s := &site{Controller: controller.Commands{Runner: c.Runner}, runner: c.Runner, files: remote.NewFiles(c.Runner)}
	if c.REST != nil {
		s.Controller = c.REST
	}
	return &Launcher{site: s, queue: controller.NewQueue(s, c.Shared, c.Logger), log: c.Logger, tunnels: &tunnels{open: map[string]*tunnel{}, chosen: map[string]dialer{}}, dir: c.Dir}
}

// Close ends what the launcher runs on the site: a later call starts it again.
func (l *Launcher) Close() {
	l.tunnels.closeAll()
	l.site.files.Close()
}

// For returns the launcher that a file asks for.
func For(s *spec.ClusterSpec, log *slog.Logger) (*Launcher, error) {
	section := &spec.Slurm{}
	if s != nil && s.Slurm != nil {
		section = s.Slurm
	}
	c := Config{Dir: section.Dir, Logger: log, Shared: remote.SharedFile(section)}
	var err error
	if c.Runner, err = remote.RunnerFor(section); err != nil {
		return nil, err
	}
	if section.Transport == "slurmrestd" || section.Transport != "local" && section.Host == "" && section.RESTURL != "" {
		c.REST = controller.NewREST(section.RESTURL, section.RESTTokenFile)
	}
	return New(c), nil
}

// Name is "slurm".
func (l *Launcher) Name() string { return spec.LauncherSlurm }

// arrive learns where the site's directory is and who we are there.
func (l *Launcher) arrive(ctx context.Context) (dir, owner string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner != "" {
		return l.dir, l.owner, nil
	}
	var who struct {
		Home, User, Host string
		Environment      []string
	}
	if err := l.site.files.Call(ctx, "hello", map[string]any{"keep": strings.Fields(remote.Kept)}, &who); err != nil {
		return "", "", l.cut(err)
	}
	if rest, home := strings.CutPrefix(l.dir, "~/"); home {
		l.dir = path.Join(who.Home, rest)
	}
	l.owner, l.env = who.User+"@"+who.Host, who.Environment
	return l.dir, l.owner, nil
}

// cut explains an error of the way to the site's files.
func (l *Launcher) cut(err error) error {
	if errors.Is(err, remote.ErrCut) {
		return launcher.Fail(runstate.CodeUnreachable, err, "check that `ssh` gets there and that it has python3",
			"the files of the Slurm site cannot be reached on %s: %v", l.site.runner, err)
	}
	return err
}

// environment is what jobs start with: the variables of the machine where the files are, as known since arrive.
func (l *Launcher) environment() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.env
}
