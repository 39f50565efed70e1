package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// DashboardFlags identify the dashboard for a command: a cluster's, or any by its address.
type DashboardFlags struct {
	Cluster string
	Address string // of --address or, after FromEnvironment, of a variable of Ray's
	Verify  string
	Config  ConfigFlags

	variable string // that Address is from; "" for --address
}

// Add adds the flags to a command.
func (o *DashboardFlags) Add(a *App, c *cobra.Command) {
	c.Flags().StringVarP(&o.Cluster, "cluster", "c", "", "cluster `NAME` (default: the file's, or your only one)")
	c.Flags().StringVar(&o.Address, "address", "", "`URL` of any Ray dashboard instead of a cluster's (default: RAY_API_SERVER_ADDRESS); its token is taken from RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token, further headers from RAY_JOB_HEADERS")
	c.Flags().StringVar(&o.Verify, "verify", "", "check the certificate of an https address: true, false, or a `FILE` or directory of certificates that count instead of the system's (default: true)")
	Complete(c, "cluster", a.CompleteClusters)
	c.MarkFlagsMutuallyExclusive("cluster", "address")
	o.Config.AddSelection(c)
}

// Connection is a reachable dashboard.
type Connection struct {
	*dashboardclient.Client
	cluster *Cluster // nil with --address
	verify  string   // of --verify
	Close   func()
}

// Flags returns the flags with which a next command reaches the same dashboard.
func (c *Connection) Flags() string {
	if c.cluster == nil && c.verify != "" {
		return " --address " + c.URL() + " --verify " + shellescape.Quote(c.verify)
	}
	if c.cluster == nil {
		return " --address " + c.URL()
	}
	return " -c " + string(c.cluster.ID)
}

// ID is that of the cluster behind the dashboard; "" with --address.
func (c *Connection) ID() launcher.ID {
	if c.cluster == nil {
		return ""
	}
	return c.cluster.ID
}

// Cluster is the cluster behind the dashboard; nil with --address.
func (c *Connection) Cluster() *Cluster { return c.cluster }

// AwaitEnd returns a context that ends, with the cause launcher.ErrEnded, once the connection's cluster has ended: its dashboard will not answer any more.
// It looks at the cluster only after look was called, because a watch costs the substrate requests.
func (c *Connection) AwaitEnd(ctx context.Context) (alive context.Context, look, stop func()) {
	alive, cancel := context.WithCancelCause(ctx)
	look = sync.OnceFunc(func() {
		if c.cluster == nil {
			return
		}
		go func() {
			if c.cluster.UntilEnded(alive) {
				cancel(launcher.ErrEnded)
			}
		}()
	})
	return alive, look, func() { cancel(nil) }
}

// FollowLogs follows logs of nodes with these options until Ctrl-C, or until the connection's cluster has ended, which is no error.
func (a *App) FollowLogs(ctx context.Context, c *Connection, opts dashboardclient.LogOptions, follow func(context.Context, dashboardclient.LogOptions) error) error {
	alive, look, stop := c.AwaitEnd(ctx)
	defer stop()
	opts.OnInterrupted = func(err error) {
		if err != nil {
			look()
		}
	}
	err := follow(alive, opts)
	switch {
	case errors.Is(context.Cause(alive), launcher.ErrEnded):
		a.UI.Note("cluster %s has ended", c.cluster.ID)
		return nil
	case Interrupted(ctx):
		return Exit(runstate.CodeInterrupted)
	}
	return err
}

// SubmitOffers submits what the connection's cluster cannot get by itself, while its job is followed, until stop is called (launcher.SubmitOffers).
func (c *Connection) SubmitOffers(ctx context.Context, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var submits sync.WaitGroup
	if c.cluster != nil {
		submits.Go(func() { launcher.SubmitOffers(ctx, c.cluster.Launcher, c.cluster.ID, log) })
	}
	return func() {
		cancel()
		submits.Wait()
	}
}

// OnCluster is the RunE of a command whose only argument is the cluster.
func (a *App) OnCluster(o *DashboardFlags, run func(context.Context) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := o.FromArgument(args); err != nil {
			return err
		}
		return a.Action(run)(c, args)
	}
}

// FromEnvironment takes the dashboard from RAY_API_SERVER_ADDRESS, as `ray job` does, if the command line names no cluster and no address. If it is that of
// a cluster of this machine, as `rayctl env` prints it, the command works on that cluster, because a cluster allows more commands than its dashboard alone.
func (a *App) FromEnvironment(ctx context.Context, o *DashboardFlags) {
	if o.Cluster != "" || o.Address != "" {
		return
	}
	address, variable := rayAddress(a.Getenv)
	switch {
	case address == "":
		return
	case o.Verify == "":
		o.Cluster = a.clusterAt(ctx, o, address)
	}
	if o.Cluster == "" {
		o.Address, o.variable = address, variable
		a.UI.Note("the dashboard of %s", variable)
	}
}

// clusterAt is the living cluster of this machine whose dashboard has this address; "" if there is none.
func (a *App) clusterAt(ctx context.Context, o *DashboardFlags, address string) string {
	loaded, err := a.Selection(&o.Config)
	if err != nil {
		return ""
	}
	here, err := a.launcherNamed(spec.Fallback(), loaded.Spec)
	if err != nil {
		return ""
	}
	all, _ := a.List(ctx, []launcher.Launcher{here}, false) // if listing fails, no cluster is found
	for _, c := range all {
		if c.Status.Head.Dashboard == strings.TrimRight(address, "/") {
			return c.Status.Name
		}
	}
	return ""
}

// Connect connects to the dashboard chosen by the user.
func (a *App) Connect(ctx context.Context, o *DashboardFlags) (*Connection, error) {
	c, _, err := a.ConnectFound(ctx, o)
	return c, err
}

// ConnectFound is Connect, and returns the cluster that was found, also with the error that it has ended; nil for an address.
func (a *App) ConnectFound(ctx context.Context, o *DashboardFlags) (*Connection, *Cluster, error) {
	a.FromEnvironment(ctx, o)
	if o.Address != "" {
		c, err := a.ConnectAddress(o)
		return c, nil, err
	}
	if o.Verify != "" {
		return nil, nil, UsageError("leave it out: rayctl's own clusters need no certificates", "--verify applies to --address and %s only", rayAddressVariable)
	}
	found, err := a.Find(ctx, FindOptions{Name: o.Cluster, Config: &o.Config})
	if err != nil {
		return nil, nil, err
	}
	c, err := a.ConnectCluster(ctx, found)
	return c, found, err
}

// ConnectAddress connects to any dashboard by its URL, with the token and the headers that Ray's own tools would send.
func (a *App) ConnectAddress(o *DashboardFlags) (*Connection, error) {
	config, err := rayConfig(o.Address, o.variable, o.Verify, a.Getenv)
	if err != nil {
		return nil, err
	}
	config.Logger = a.Logger()
	client, err := dashboardclient.New(config)
	if err != nil {
		return nil, err
	}
	return &Connection{Client: client, verify: o.Verify, Close: func() {}}, nil
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
			hint := "`rayctl logs " + string(c.ID) + "` shows its output, `rayctl status " + string(c.ID) + "` its job and attempts"
			if r.Job == nil {
				hint = "`rayctl jobs " + string(c.ID) + "` lists what was submitted to it"
			}
			return nil, launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, hint, "cluster %s has ended (%s)", c.ID, r.Exit.Cause)
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
	return keeperError(c.ID, launcher.AskOver(e, ask))
}

// keeperError explains a keeper that gave no answer; its answers stay as they are.
func keeperError(id launcher.ID, err error) error {
	var own *launcher.ExitError
	var answer *keeper.Error
	switch {
	case err == nil, errors.As(err, &own), errors.Is(err, context.Canceled), errors.Is(err, keeper.ErrNotPermitted):
		return err
	case errors.As(err, &answer) && answer.Status == http.StatusServiceUnavailable:
		return launcher.Fail(runstate.CodeUnreachable, err, "try again", "%s: %s", id, answer.Message)
	case errors.As(err, &answer):
		return err
	}
	return launcher.Fail(runstate.CodeUnreachable, err, "`rayctl status "+string(id)+"` shows whether it lives; then try again", "the keeper of %s did not answer: %v", id, err)
}

// FromArgument takes the cluster from an argument instead of --cluster.
func (o *DashboardFlags) FromArgument(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if o.Cluster != "" || o.Address != "" {
		return UsageError("leave one of them out", "the cluster is given twice: %q and by a flag", args[0])
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
