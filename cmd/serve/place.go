package serve

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/served"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// place settles where Serve will listen. Serve that runs stays where it is. On a host that clusters share the default is a free port of loopback: Serve's own
// is port 8000 of every interface, and a second Serve listens there, too, without an error (SO_REUSEPORT), so that requests reach either cluster.
func place(ctx context.Context, a *app.App, c *app.Connection, file string, config map[string]any) error {
	status, err := state(ctx, c)
	if err != nil {
		return err
	}
	options, _ := config["http_options"].(map[string]any)
	if options == nil {
		options = map[string]any{}
	}
	if status.HTTP != nil {
		return keepPlace(c, file, status.HTTP, config, options)
	}
	if !sharesHost(c) || config["proxy_location"] == "Disabled" {
		return nil
	}
	host, _ := options["host"].(string)
	host = cmp.Or(host, served.Loopback)
	wanted, _ := options["port"].(float64)
	port, err := choosePort(ctx, a, c, host, int(wanted))
	if err != nil {
		return fmt.Errorf("%s: http_options: %w", file, err)
	}
	options["host"], options["port"], config["http_options"] = host, port, options
	return nil
}

// keepPlace refuses another place than the one where Serve listens: Ray would ignore it.
func keepPlace(c *app.Connection, file string, now *dashboardclient.ServeHTTP, config, options map[string]any) error {
	for key, present := range map[string]any{"host": now.Host, "port": float64(now.Port)} {
		if wanted, given := options[key]; given && wanted != present {
			return launcher.Fail(runstate.CodeSpec, nil, "`rayctl serve delete"+c.Flags()+" --all` ends Serve with all applications, and the next apply starts it anew",
				"%s: http_options.%s is %v, but Serve runs on the cluster and listens on %s", file, key, wanted, address(now))
		}
		options[key] = present
	}
	config["http_options"] = options
	return nil
}

// choosePort asks the keeper, which is on the head's host.
func choosePort(ctx context.Context, a *app.App, c *app.Connection, host string, wanted int) (port int, err error) {
	err = a.AskKeeper(ctx, c.Cluster(), func(k *keeper.Client) error { port, err = k.ChoosePort(ctx, host, wanted); return err })
	if why, refused := keeper.Refusal(err); refused {
		err = launcher.Fail(runstate.CodeConfig, err, "choose another one", "%s", why)
	}
	return port, err
}

// sharesHost reports whether the head shares its host with other clusters.
func sharesHost(c *app.Connection) bool {
	return c.Cluster() != nil && c.Cluster().Launcher.Properties().SharedHosts
}

func address(h *dashboardclient.ServeHTTP) string {
	return net.JoinHostPort(h.Host, strconv.Itoa(h.Port))
}

// tellURLs prints the URLs at which this machine reaches the applications, also with --quiet: they are what apply is for.
func tellURLs(a *app.App, c *app.Connection, s *dashboardclient.ServeStatus) {
	if !served.Listens(c, s) {
		return
	}
	for _, application := range served.Applications(c, s) {
		if application.URL != "" {
			a.UI.Warn("%s: %s", application.Name, terminal.OneLine(application.URL))
		}
	}
	if !served.OnThisMachine(c) {
		a.UI.Note("`rayctl port-forward %s %d` makes that address reach the cluster", c.Cluster().ID, s.HTTP.Port)
	} else if tunnel := a.TunnelHint(s.HTTP.Port); tunnel != "" {
		a.UI.Note("on the machine from which you logged in by ssh: %s, then the same address", tunnel)
	}
}
