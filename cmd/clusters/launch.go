package clusters

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// newPayload is what a launch carries beside the spec.
func newPayload(a *app.App, s *spec.ClusterSpec, command string) (launcher.Payload, error) {
	secrets, err := config.ReadSecrets(s, a.Getenv)
	if err != nil {
		return launcher.Payload{}, err
	}
	p := launcher.Payload{Secrets: secrets, Command: command, Progress: a.UI.Transfer, Warn: func(text string) { a.UI.Warn("%s", text) }}
	if s.Job.Entrypoint != "" {
		p.Packages = a.Packages(&s.Job)
	}
	return p, nil
}

// replace ends and forgets the cluster of the spec's name. Before that it checks what it can: it packs the packages, once, and asks the launcher to
// validate the launch.
func replace(ctx context.Context, a *app.App, l launcher.Launcher, s *spec.ClusterSpec, p *launcher.Payload) error {
	if _, err := l.Render(s); err != nil {
		return err
	}
	if err := l.Validate(ctx, s, *p); err != nil {
		return err
	}
	if p.Packages != nil {
		made, err := p.Packages(ctx)
		if err != nil {
			return err
		}
		p.Packages = func(context.Context) (*launcher.Packages, error) { return made, nil }
	}
	id := launcher.ID(s.Name)
	if err := l.Terminate(ctx, id, launcher.End{Cause: runstate.CauseDown, Message: "replaced by --recreate"}); err != nil {
		return err
	}
	return forget(ctx, a, l, id)
}

// forget frees the name of an ended cluster. `history` goes on to list it, without its output.
func forget(ctx context.Context, a *app.App, l launcher.Launcher, id launcher.ID) error {
	if r, err := l.Result(ctx, id); err == nil && r.Exit != nil {
		a.RememberReplaced(launcher.NewReceipt(r))
	}
	if err := l.Forget(ctx, id); err != nil && !errors.Is(err, launcher.ErrNotFound) {
		return err
	}
	return nil
}

// earlier is what has the exact name already: the same run, which the launch attaches to or answers with its record, or another, for which it refuses the
// name; nil: there is none.
func earlier(ctx context.Context, l launcher.Launcher, s *spec.ClusterSpec, o *runOptions) *launcher.Status {
	if o.config.ExactName() == "" || o.recreate {
		return nil
	}
	found, err := (&app.Cluster{Launcher: l, ID: launcher.ID(s.Name)}).Status(ctx) // if there is none, the launch has the reason
	if err != nil {
		return nil
	}
	return &found
}

const defaultDisconnect = "2m"

// disconnectFlag is --end-on-disconnect[=2m]. A command that watches until the end has it by default if CI=true.
type disconnectFlag struct{ text string }

func (d *disconnectFlag) add(c *cobra.Command, byDefault string) {
	c.Flags().StringVar(&d.text, "end-on-disconnect", "", "end the cluster if no rayctl watches it for `TIME`; 0: never (default: "+byDefault+")")
	c.Flags().Lookup("end-on-disconnect").NoOptDefVal = defaultDisconnect
}

// value is the time in force; stays means that this command watches the cluster until its end.
func (d *disconnectFlag) value(a *app.App, stays bool) (time.Duration, error) {
	text := d.text
	switch {
	case text == "" && stays && a.Getenv("CI") == "true":
		text = defaultDisconnect
	case text == "":
		return 0, nil
	}
	t, err := units.ParseDuration(text)
	switch {
	case err != nil:
		return 0, app.UsageError("", "--end-on-disconnect: %v", err)
	case t != 0 && t < 5*time.Second:
		return 0, app.UsageError("give 5s or more, as a short network failure would end the run", "--end-on-disconnect: %s is too short", text)
	}
	return t, nil
}

// hintKilled names the usual reason of a SIGKILL that nothing else explains.
func hintKilled(ui *terminal.UI, e runstate.Exit) {
	const killed = 128 + int(syscall.SIGKILL)
	ours := strings.Contains(e.Message, "Ray kill") || strings.Contains(e.Message, "memory") // the message has the reason
	if e.Origin != runstate.OriginRayctl && e.Code == killed && !ours {
		app.HintKilled(ui)
	}
}

// noteShared names the command for those with whom the run is shared, and warns if they cannot enter its directory, where that is seen here.
func noteShared(a *app.App, s *spec.ClusterSpec) {
	dir := s.Job.ShareDir
	if dir == "" {
		return
	}
	if info, err := os.Stat(dir); err == nil && info.Mode()&0o050 != 0o050 {
		a.UI.Warn("The group of %s cannot read it: `chmod 2770 %s`", dir, shellescape.Quote(dir))
	}
	a.UI.Note("Its group can follow it once it has begun to start: `rayctl logs -f %s`", shellescape.Quote(strings.TrimSuffix(dir, "/")+"/"+s.Name))
}
