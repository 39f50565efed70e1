package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// DashboardFlags identify the dashboard for a command: a cluster's, or any by its address.
type DashboardFlags struct {
	Cluster string
	Address string
	Config  ConfigFlags
}

// Add adds the flags to a command.
func (o *DashboardFlags) Add(a *App, c *cobra.Command) {
	c.Flags().StringVarP(&o.Cluster, "cluster", "c", "", "cluster `NAME` (default: the file's, or your only one)")
	c.Flags().StringVar(&o.Address, "address", "", "`URL` of any Ray dashboard instead of a cluster's; its token is taken from RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token")
	Complete(c, "cluster", a.CompleteClusters)
	c.MarkFlagsMutuallyExclusive("cluster", "address")
	o.Config.AddSelection(c)
}

// Connection is a reachable dashboard.
type Connection struct {
	*dashboardclient.Client
	cluster *Cluster // nil with --address
	Close   func()
}

// Flags returns the flags with which a next command reaches the same dashboard.
func (c *Connection) Flags() string {
	if c.cluster == nil {
		return " --address " + c.URL()
	}
	return " -c " + string(c.cluster.ID)
}

// Cluster is the cluster behind the dashboard; nil with --address.
func (c *Connection) Cluster() *Cluster { return c.cluster }

// OnCluster is the RunE of a command whose only argument is the cluster.
func (a *App) OnCluster(o *DashboardFlags, run func(context.Context) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := o.FromArgument(args); err != nil {
			return err
		}
		return a.Action(run)(c, args)
	}
}

// Connect connects to the dashboard chosen by the user.
func (a *App) Connect(ctx context.Context, o *DashboardFlags) (*Connection, error) {
	if o.Address != "" {
		return a.ConnectAddress(o.Address)
	}
	c, err := a.Find(ctx, FindOptions{Name: o.Cluster, Config: &o.Config})
	if err != nil {
		return nil, err
	}
	return a.ConnectCluster(ctx, c)
}

// ConnectAddress connects to any dashboard by its URL, with the token that Ray's own tools would send.
func (a *App) ConnectAddress(address string) (*Connection, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, UsageError("give it like http://127.0.0.1:8265", "%q is not the address of a dashboard", address)
	}
	token, err := a.rayToken()
	if err != nil {
		return nil, err
	}
	client, err := dashboardclient.New(dashboardclient.Config{URL: address, Token: token, Logger: a.Logger()})
	if err != nil {
		return nil, err
	}
	return &Connection{Client: client, Close: func() {}}, nil
}

// ConnectCluster connects to the dashboard of a cluster.
func (a *App) ConnectCluster(ctx context.Context, c *Cluster) (*Connection, error) {
	e, err := a.Dial(ctx, c, launcher.Dashboard)
	if err != nil {
		return nil, err
	}
	client, err := launcher.DashboardClient(e, a.Logger())
	if err != nil {
		e.Close()
		return nil, err
	}
	return &Connection{Client: client, cluster: c, Close: func() { e.Close() }}, nil
}

// Dial connects to a server of the cluster. Its error has the next step if the server is not reachable yet, or no longer.
func (a *App) Dial(ctx context.Context, c *Cluster, t launcher.Target) (*launcher.Endpoint, error) {
	e, err := c.Launcher.Dial(ctx, c.ID, t)
	var own *launcher.ExitError
	switch {
	case err == nil:
		a.Logger().Debug("reached", "target", t, "cluster", c.ID, "via", e.Via)
		return e, nil
	case errors.Is(err, launcher.ErrNotFound):
		if r, rerr := c.Launcher.Result(ctx, c.ID); rerr == nil && r.Exit != nil {
			return nil, launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "`rayctl logs "+string(c.ID)+"` shows its output", "cluster %s has ended (%s)", c.ID, r.Exit.Cause)
		}
		return nil, launcher.NotFound(c.ID)
	case errors.As(err, &own):
		return nil, err
	case errors.Is(err, launcher.ErrNotReady):
		return nil, launcher.Fail(runstate.CodeUnreachable, err, "`rayctl status -w "+string(c.ID)+"` shows when", "cluster %s is not ready yet", c.ID)
	default:
		return nil, err
	}
}

// AskKeeper calls ask with a client of the cluster's keeper.
func (a *App) AskKeeper(ctx context.Context, c *Cluster, ask func(*keeper.Client) error) error {
	e, err := a.Dial(ctx, c, launcher.Keeper)
	if err != nil {
		return err
	}
	return launcher.AskOver(e, ask)
}

// rayToken finds the token that Ray's own tools would send.
func (a *App) rayToken() (string, error) {
	if token := strings.TrimSpace(a.Getenv("RAY_AUTH_TOKEN")); token != "" {
		return token, nil
	}
	path := a.Getenv("RAY_AUTH_TOKEN_PATH")
	fallback := path == ""
	if fallback {
		path = filepath.Join(a.Getenv("HOME"), ".ray", "auth_token")
	}
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		return strings.TrimSpace(string(data)), nil
	case fallback:
		return "", nil
	default:
		return "", launcher.Fail(runstate.CodeConfig, err, "", "RAY_AUTH_TOKEN_PATH: %v", err)
	}
}

// FromArgument takes the cluster from an argument instead of --cluster.
func (o *DashboardFlags) FromArgument(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if o.Cluster != "" || o.Address != "" {
		return UsageError("", "the cluster is given twice: %q and by a flag", args[0])
	}
	o.Cluster = args[0]
	return nil
}

// TunnelHint is the command by which the machine that this ssh session comes from reaches a port of this machine's loopback; "" outside of a session.
func (a *App) TunnelHint(port int) string {
	session := strings.Fields(a.Getenv("SSH_CONNECTION")) // client's address and port, server's address and port
	if len(session) != 4 || net.ParseIP(session[2]) == nil {
		return ""
	}
	target := session[2]
	if user := a.Getenv("USER"); user != "" {
		target = user + "@" + target
	}
	command := fmt.Sprintf("ssh -N -L %d:127.0.0.1:%d ", port, port)
	if session[3] != "22" {
		command += "-p " + shellescape.Quote(session[3]) + " "
	}
	return "`" + command + shellescape.Quote(target) + "`"
}
