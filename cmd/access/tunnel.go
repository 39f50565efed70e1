package access

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/launcher/tail"
)

// tunnelPorts are where a tunnel listens on this machine.
type tunnelPorts struct {
	Dashboard string `json:"dashboard"`
	Client    string `json:"client,omitempty"` // Ray's client server
}

// tunnelStart is how long a tunnel may take until it listens.
const tunnelStart = time.Minute

// tunnelFile is the file with the ports of the tunnel to a cluster's dashboard. The tunnel holds the lock beside it, so what another process listens on is
// never taken for the tunnel.
func tunnelFile(a *app.App, c *app.Cluster, e *launcher.Endpoint) (string, error) {
	dir, err := a.CacheDir("tunnels", c.Launcher.Name())
	return filepath.Join(dir, c.CacheName(e.URL, e.Token)), err
}

// openTunnel returns the ports of the tunnel to the cluster's dashboard, a process of this machine that stays until the cluster ends; it starts one if there
// is none.
func openTunnel(ctx context.Context, a *app.App, c *app.Cluster, e *launcher.Endpoint, flags *pflag.FlagSet) (*tunnelPorts, error) {
	ctx, cancel := context.WithTimeout(ctx, tunnelStart)
	defer cancel()
	path, err := tunnelFile(a, c, e)
	if err != nil {
		return nil, err
	}
	lock, err := sharedfile.Try(path + ".lock")
	if err != nil {
		return nil, launcher.Fail(runstate.CodePermission, err, "make "+filepath.Dir(path)+" a directory that you may write", "the tunnel to %s cannot be made: %v", c.ID, err)
	}
	var process *exec.Cmd
	if lock != nil { // there is no tunnel
		_ = os.Remove(path)
		lock.Release()
		if process, err = startTunnel(path, c, flags); err != nil {
			return nil, launcher.Fail(runstate.CodeInternal, err, "end processes that you do not need, and repeat the command", "the tunnel to %s cannot be started: %v", c.ID, err)
		}
	}
	return awaitTunnel(ctx, c, path, process)
}

// startTunnel starts this program in the background, with the flags that chose the cluster. What it writes goes to a file.
func startTunnel(path string, c *app.Cluster, flags *pflag.FlagSet) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(path+".log", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := []string{tunnelVerb, string(c.ID)}
	for _, given := range config.GivenSelection(flags) {
		args = append(args, "--"+given[0]+"="+given[1])
	}
	cmd := exec.Command(self, args...) //nolint:noctx // it outlives this command
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, cmd.Start()
}

// awaitTunnel waits until the tunnel listens. process is the one that was started; nil: another rayctl started it.
func awaitTunnel(ctx context.Context, c *app.Cluster, path string, process *exec.Cmd) (*tunnelPorts, error) {
	ended := make(chan struct{})
	if process != nil {
		go func() { _ = process.Wait(); close(ended) }()
	}
	for {
		var ports tunnelPorts
		if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &ports) == nil {
			return &ports, nil
		}
		select {
		case <-ended:
			return nil, launcher.Fail(runstate.CodeUnreachable, nil, "give the command again", "the tunnel to %s has ended: %s", c.ID, lastWords(path+".log"))
		default:
		}
		if !sleep.For(ctx, 20*time.Millisecond) {
			return nil, launcher.Fail(runstate.CodeUnreachable, ctx.Err(), "`rayctl dashboard "+string(c.ID)+"` needs none", "the tunnel to %s does not listen: %s", c.ID, lastWords(path+".log"))
		}
	}
}

// lastWords are the last line of a file.
func lastWords(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return tail.LastLine(string(data))
}

// tunnelVerb is what env starts in the background.
const tunnelVerb = "tunnel"

// NewTunnel is `rayctl tunnel`, which env starts.
func NewTunnel(a *app.App) *cobra.Command {
	var selection app.ConfigFlags
	c := &cobra.Command{
		Use:    tunnelVerb + " NAME",
		Short:  "Make a cluster's dashboard and Ray's client server reachable on loopback until the cluster ends",
		Hidden: true,
		Args:   app.NoDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.Action(func(ctx context.Context) error { return runTunnel(ctx, a, &selection, app.First(args)) })(c, args)
		},
	}
	selection.AddSelection(c)
	return c
}

// runTunnel listens until the cluster has ended.
func runTunnel(ctx context.Context, a *app.App, selection *app.ConfigFlags, name string) error {
	c, err := a.Find(ctx, app.FindOptions{Name: name, Config: selection})
	if err != nil {
		return err
	}
	e, err := a.Dial(ctx, c, launcher.Dashboard)
	if err != nil {
		return err
	}
	defer e.Close()
	path, err := tunnelFile(a, c, e)
	if err != nil {
		return err
	}
	lock, err := sharedfile.Try(path + ".lock")
	if err != nil || lock == nil {
		return err // nil: another one is there
	}
	defer lock.Remove()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	ports, err := forwardRay(ctx, a, c, e, g)
	if err != nil {
		return err
	}
	data, err := json.Marshal(ports)
	if err != nil {
		return err
	}
	if err := sharedfile.Write(path, data, 0o600); err != nil {
		return err
	}
	defer os.Remove(path)
	c.UntilEnded(ctx)
	cancel()
	return g.Wait()
}

// forwardRay listens for the dashboard and, where the launcher reaches ports of nodes, for Ray's client server.
func forwardRay(ctx context.Context, a *app.App, c *app.Cluster, e *launcher.Endpoint, g *errgroup.Group) (ports *tunnelPorts, err error) {
	ports = &tunnelPorts{}
	dashboard := func() (net.Conn, error) { return e.DialContext(ctx, "tcp", strings.TrimPrefix(e.URL, "http://")) }
	if ports.Dashboard, err = forward(ctx, a, g, 0, "the dashboard", dashboard); err != nil {
		return nil, err
	}
	s, err := c.Status(ctx)
	if err != nil {
		return nil, err
	}
	if s.Head.ClientPort > 0 {
		client := func() (net.Conn, error) { return c.Launcher.DialNode(ctx, c.ID, "", s.Head.ClientPort) }
		ports.Client, err = forward(ctx, a, g, 0, "Ray's client server", client)
	}
	return ports, err
}
