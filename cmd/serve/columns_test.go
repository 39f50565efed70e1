package serve

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/dashboardclient"
)

// TestColumns: on a terminal of 80 columns no line of `serve status` and `serve list` is broken inside a word, and nothing is left out.
func TestColumns(t *testing.T) {
	const columns = 80
	name, route, deployment := strings.Repeat("n", 70), "/"+strings.Repeat("r", 60), strings.Repeat("D", 76)
	s := &dashboardclient.ServeStatus{Applications: map[string]dashboardclient.ServeApplication{name: {
		RoutePrefix: route, Status: "DEPLOY_FAILED", Message: "not enough " + strings.Repeat("/resources", 3),
		Deployments: map[string]dashboardclient.ServeDeployment{deployment: {Status: "UPSCALING", Message: "waits for many more CPUs and GPUs"}},
	}}}
	text := apptest.OnTerminal(t, columns, func(a *app.App) {
		if err := printStatus(a, &app.Output{}, s); err != nil {
			t.Error(err)
		}
	})
	apptest.Fits(t, text, columns, name, route, deployment, "DEPLOY_FAILED", "UPSCALING", strings.Repeat("/resources", 3), "many more CPUs")
}
