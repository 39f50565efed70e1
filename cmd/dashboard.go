package cmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/launcher"
)

type dashboardCommandOptions struct {
	config configOptions
	name   string
	open   bool
	port   int
}

func newDashboard(a *App) *cobra.Command {
	o := &dashboardCommandOptions{}
	c := &cobra.Command{
		Use:   "dashboard [NAME] [--open]",
		Short: "Give a local URL of Ray's dashboard, until Ctrl-C",
		Long: "dashboard serves Ray's dashboard on 127.0.0.1 until Ctrl-C and prints its URL. The URL carries a secret that only you have: other users of this\n" +
			"machine get nothing. The cluster's own token stays in this process.",
		Example: "  rayctl dashboard --open\n  rayctl dashboard dev --port 8265",
		Args:    noDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = first(args)
			return a.action(func(ctx context.Context) error { return runDashboard(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.completeClusters,
	}
	o.config.addSelection(c)
	c.Flags().BoolVar(&o.open, "open", false, "open it in the browser")
	c.Flags().IntVar(&o.port, "port", 0, "local `PORT` (default: a free one)")
	return c
}

// runDashboard serves a proxy to the dashboard until the user has had enough.
func runDashboard(ctx context.Context, a *App, o *dashboardCommandOptions) error {
	c, err := a.find(ctx, findOptions{name: o.name, config: &o.config})
	if err != nil {
		return err
	}
	e, err := a.dial(ctx, c, launcher.Dashboard)
	if err != nil {
		return err
	}
	defer e.Close()
	listener, err := listenLocal(ctx, o.port)
	if err != nil {
		return err
	}
	proxy, err := newProxy(e, listener.Addr().String())
	if err != nil {
		return err
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(a.Out, proxy.entryURL())
	a.ui.note("the dashboard of %s, until Ctrl-C", c.id)
	if o.open {
		if err := openBrowser(ctx, proxy.entryURL()); err != nil {
			a.ui.warn("no browser could be opened: %v", err)
		}
	}
	return serveUntil(ctx, server, listener)
}

// listenLocal listens on loopback.
func listenLocal(ctx context.Context, port int) (net.Listener, error) {
	if port < 0 || port > 65535 {
		return nil, usageError("", "%d is not a port", port)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fail(launcher.CodeConfig, err, "choose another port, or 0 for a free one", "port %d cannot be used: %v", port, err)
	}
	return l, nil
}

// serveUntil serves until ctx ends; being stopped is the normal end.
func serveUntil(ctx context.Context, server *http.Server, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the dashboard: %w", err)
	}
	return nil
}

func openBrowser(ctx context.Context, url string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	return exec.CommandContext(ctx, program, url).Start()
}
