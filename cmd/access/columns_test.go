package access

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/dashboardclient"
)

// TestColumns: on a terminal of 80 columns no line of `top` is broken inside a word, and nothing is left out.
func TestColumns(t *testing.T) {
	const columns = 80
	node := dashboardclient.NodeLoad{
		Name: strings.Repeat("a-long-name-", 6), Resources: map[string]dashboardclient.Usage{"CPU": {Used: 1022.5, Total: 1024}, "GPU": {Used: 7.25, Total: 8}},
		Measured: true, CPUPercent: 100, GPUs: []dashboardclient.GPULoad{{Percent: 100}}, Memory: dashboardclient.Usage{Used: 1000 << 30, Total: 4000 << 30}, Tasks: 123456, Actors: 98765,
	}
	text := apptest.OnTerminal(t, columns, func(a *app.App) {
		if err := writeTop(a.Out, []dashboardclient.NodeLoad{node, node}); err != nil {
			t.Error(err)
		}
	})
	apptest.Fits(t, text, columns, node.Name, "1022.5/1024", "1000.0/4000.0 GiB", "123456", "98765", "all", "246912")
}
