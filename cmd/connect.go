package cmd

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// dashboardOptions identify the dashboard for a command: a cluster's, or any by its address.
type dashboardOptions struct {
	cluster string
	address string
	config  configOptions
}

func (o *dashboardOptions) add(a *App, c *cobra.Command) {
	c.Flags().StringVarP(&o.cluster, "cluster", "c", "", "cluster `NAME` (default: the file's, or your only one)")
	c.Flags().StringVar(&o.address, "address", "", "`URL` of any Ray dashboard instead of a cluster's; its token is taken from RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token")
	complete(c, "cluster", a.completeClusters)
	c.MarkFlagsMutuallyExclusive("cluster", "address")
	o.config.addSelection(c)
}

// connection is a reachable dashboard.
type connection struct {
	*dashboardclient.Client
	cluster *cluster // nil with --address
	close   func()
}

// flags returns the flags with which a next command reaches the same dashboard.
func (c *connection) flags() string {
	if c.cluster == nil {
		return " --address " + c.URL()
	}
	return " -c " + string(c.cluster.id)
}

// onCluster is the RunE of a command whose only argument is the cluster.
func (a *App) onCluster(o *dashboardOptions, run func(context.Context) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := o.fromArgument(args); err != nil {
			return err
		}
		return a.action(run)(c, args)
	}
}

// connect connects to the dashboard chosen by the user.
func (a *App) connect(ctx context.Context, o *dashboardOptions) (*connection, error) {
	if o.address != "" {
		return a.connectAddress(o.address)
	}
	c, err := a.find(ctx, findOptions{name: o.cluster, config: &o.config})
	if err != nil {
		return nil, err
	}
	return a.connectCluster(ctx, c)
}

func (a *App) connectAddress(address string) (*connection, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, usageError("give it like http://127.0.0.1:8265", "%q is not the address of a dashboard", address)
	}
	token, err := a.rayToken()
	if err != nil {
		return nil, err
	}
	client, err := dashboardclient.New(dashboardclient.Config{URL: address, Token: token, Logger: a.logger()})
	if err != nil {
		return nil, err
	}
	return &connection{Client: client, close: func() {}}, nil
}

func (a *App) connectCluster(ctx context.Context, c *cluster) (*connection, error) {
	e, err := a.dial(ctx, c, launcher.Dashboard)
	if err != nil {
		return nil, err
	}
	client, err := launcher.DashboardClient(e, a.logger())
	if err != nil {
		e.Close()
		return nil, err
	}
	return &connection{Client: client, cluster: c, close: func() { e.Close() }}, nil
}

// dial connects to a server of the cluster. Its error has the next step if the server is not reachable yet, or no longer.
func (a *App) dial(ctx context.Context, c *cluster, t launcher.Target) (*launcher.Endpoint, error) {
	e, err := c.l.Dial(ctx, c.id, t)
	var own *launcher.ExitError
	switch {
	case err == nil:
		a.logger().Debug("reached", "target", t, "cluster", c.id, "via", e.Via)
		return e, nil
	case errors.Is(err, launcher.ErrNotFound):
		if r, rerr := c.l.Result(ctx, c.id); rerr == nil && r.Exit != nil {
			return nil, launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "`rayctl logs "+string(c.id)+"` shows its output", "cluster %s has ended (%s)", c.id, r.Exit.Cause)
		}
		return nil, launcher.NotFound(c.id)
	case errors.As(err, &own):
		return nil, err
	case errors.Is(err, launcher.ErrNotReady):
		return nil, launcher.Fail(runstate.CodeUnreachable, err, "`rayctl status -w "+string(c.id)+"` shows when", "cluster %s is not ready yet", c.id)
	default:
		return nil, err
	}
}

// askKeeper calls ask with a client of the cluster's keeper.
func (a *App) askKeeper(ctx context.Context, c *cluster, ask func(*keeper.Client) error) error {
	e, err := a.dial(ctx, c, launcher.Keeper)
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
