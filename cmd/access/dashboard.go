package access

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/sharedfile"
)

type dashboardCommandOptions struct {
	config app.ConfigFlags
	name   string
	open   bool
	port   int
}

// NewDashboard is `rayctl dashboard`.
func NewDashboard(a *app.App) *cobra.Command {
	o := &dashboardCommandOptions{}
	c := &cobra.Command{
		Use:   "dashboard [NAME] [--open]",
		Short: "Give a local URL of Ray's dashboard, until Ctrl-C",
		Long: "dashboard serves Ray's dashboard on 127.0.0.1 until Ctrl-C and prints a URL. Each URL works for one browser, which it redirects to NAME.localhost\n" +
			"with a session cookie; other users of this machine and other web pages cannot use that session. When a URL has been used, rayctl prints a new one.\n" +
			"The same URL works through ssh -L PORT:127.0.0.1:PORT. The browser never receives the cluster's token.",
		Example: "  rayctl dashboard --open\n  rayctl dashboard dev --port 8265",
		Args:    app.NoDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = app.First(args)
			return a.Action(func(ctx context.Context) error { return runDashboard(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	c.Flags().BoolVar(&o.open, "open", false, "open it in the browser")
	c.Flags().IntVarP(&o.port, "port", "p", 0, "local `PORT` (default: a free one)")
	return c
}

// runDashboard serves a proxy to the dashboard until it is interrupted.
func runDashboard(ctx context.Context, a *app.App, o *dashboardCommandOptions) error {
	c, err := a.Find(ctx, app.FindOptions{Name: o.name, Config: &o.config})
	if err != nil {
		return err
	}
	e, err := a.Dial(ctx, c, launcher.Dashboard)
	if err != nil {
		return err
	}
	defer e.Close()
	listener, err := listenLocal(ctx, a, o.port)
	if err != nil {
		return err
	}
	proxy, err := newDashProxy(e, listener.Addr().String())
	if err != nil {
		return err
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(a.Out, proxy.EntryURL())
	a.UI.Note("the dashboard of %s, until Ctrl-C", c.ID)
	if tunnel := a.TunnelHint(listener.Addr().(*net.TCPAddr).Port); tunnel != "" {
		a.UI.Note("on the machine from which you logged in by ssh: %s, then the same URL", tunnel)
	}
	removePage := func() {}
	proxy.Used = func() {
		a.UI.Note("this URL has been used; for another browser open %s", proxy.EntryURL())
	}
	if o.open {
		if removePage, err = openBrowser(ctx, a, proxy.EntryURL()); err != nil {
			a.UI.Warn("no browser could be opened: %v", err)
		}
	}
	defer removePage()
	return serveUntil(ctx, server, listener)
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

// openBrowser opens a file that leads to the URL: other users of the machine can read the arguments of programs, but not this file.
func openBrowser(ctx context.Context, a *app.App, url string) (remove func(), err error) {
	nothing := func() {}
	dir, err := a.CacheDir("dashboard")
	if err != nil {
		return nothing, err
	}
	page := filepath.Join(dir, strings.ToLower(rand.Text())+".html")
	if err := sharedfile.Write(page, []byte(redirectPage(url, "")), 0o600); err != nil {
		return nothing, err
	}
	remove = func() { os.Remove(page) }
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	return remove, exec.CommandContext(ctx, program, page).Start()
}
