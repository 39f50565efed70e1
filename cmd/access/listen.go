package access

import (
	"context"
	"fmt"
	"net"
	"os/user"
	"strconv"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/dashboardclient/proven"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// listenLocal listens on loopback, for this user alone.
func listenLocal(ctx context.Context, a *app.App, port int) (net.Listener, error) {
	if port < 0 || port > 65535 {
		return nil, app.UsageError("choose a port up to 65535, or 0 for a free one", "%d is not a port", port)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, launcher.Fail(runstate.CodeConfig, err, "choose another port, or 0 for a free one", "port %d cannot be used: %v", port, err)
	}
	return &proven.Listener{Listener: l, Refused: func(uid int) {
		name := strconv.Itoa(uid)
		if u, err := user.LookupId(name); err == nil {
			name = u.Username
		}
		a.UI.Warn("closed a connection from %s, another user of this machine, to %s: only you may connect to it", name, l.Addr())
	}}, nil
}
