package access

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// topPause is the time between two queries of -w. The dashboard's agent on each node measures every 2.5 s.
const topPause = 2 * time.Second

type topOptions struct {
	dashboard app.DashboardFlags
	watch     bool
	output    app.Output
}

// NewTop is `rayctl top`.
func NewTop(a *app.App) *cobra.Command {
	o := &topOptions{}
	c := &cobra.Command{
		Use:   "top [NAME] [-w]",
		Short: "Show what the nodes do: CPUs, GPUs, memory, tasks, actors",
		Long: "top shows for each node how many CPUs and GPUs Ray has given to tasks, actors and placement groups, and how busy the CPUs and GPUs are. The second\n" +
			"figure counts everything that runs on the machine or in the container.",
		Example:           "  rayctl top\n  rayctl top dev -w\n  rayctl top dev -o json",
		Args:              app.NoDash(1, "one name"),
		RunE:              a.OnCluster(&o.dashboard, func(ctx context.Context) error { return runTop(ctx, a, o) }),
		ValidArgsFunction: a.CompleteClusters,
	}
	o.dashboard.Add(a, c)
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "show it again every 2 s, until Ctrl-C")
	o.output.Add(c, app.FormatJSON, app.FormatYAML)
	return c
}

// runTop shows the load once, or again and again.
func runTop(ctx context.Context, a *app.App, o *topOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	c, err := a.Connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		loads, err := c.Load(ctx)
		switch {
		case app.Interrupted(ctx):
			return app.Exit(runstate.CodeInterrupted)
		case err != nil:
			return err
		}
		slices.SortStableFunc(loads, compareNodes)
		if err := printTop(a, o, loads); err != nil || !o.watch {
			return err
		}
		if !sleep.For(ctx, topPause) {
			return app.Exit(runstate.CodeInterrupted)
		}
	}
}

// compareNodes orders the head first, then the other nodes by name.
func compareNodes(x, y dashboardclient.NodeLoad) int {
	switch {
	case x.Head == y.Head:
		return strings.Compare(x.Name, y.Name)
	case x.Head:
		return -1
	default:
		return 1
	}
}

func printTop(a *app.App, o *topOptions, loads []dashboardclient.NodeLoad) error {
	if o.watch && o.output.Format == app.FormatJSON {
		return json.NewEncoder(terminal.CleanJSON(a.Out)).Encode(terminal.NonNil(loads))
	}
	if o.watch && o.output.Format == app.FormatYAML {
		fmt.Fprintln(a.Out, "---")
	}
	if done, err := o.output.Structured(a.Out, terminal.NonNil(loads)); done || err != nil {
		return err
	}
	if o.watch && a.OutTTY {
		fmt.Fprint(a.Out, "\x1b[H\x1b[2J") // moves the cursor to the upper left corner and clears the screen
	}
	return writeTop(a.Out, loads)
}

// writeTop writes a row for each node and, if there are several nodes, a row with the sums.
func writeTop(w io.Writer, loads []dashboardclient.NodeLoad) error {
	rows := [][]string{{"NODE", "CPUS", "CPU%", "GPUS", "GPU%", "MEMORY", "TASKS", "ACTORS"}}
	var cpus, gpus dashboardclient.Usage
	tasks, actors := 0, 0
	for _, n := range loads {
		rows = append(rows, []string{
			terminal.OrDash(n.Name), usedOf(n.Resources["CPU"]), measured(n.Measured, n.CPUPercent), usedOf(n.Resources["GPU"]), gpuPercent(n.GPUs),
			usedGiB(n.Memory), strconv.Itoa(n.Tasks), strconv.Itoa(n.Actors),
		})
		cpus, gpus = plus(cpus, n.Resources["CPU"]), plus(gpus, n.Resources["GPU"])
		tasks, actors = tasks+n.Tasks, actors+n.Actors
	}
	if len(loads) > 1 {
		// Nodes on one machine each measure the whole machine, so a sum of what they measure would be wrong.
		rows = append(rows, []string{"all", usedOf(cpus), "", usedOf(gpus), "", "", strconv.Itoa(tasks), strconv.Itoa(actors)})
	}
	return terminal.Table(w, rows)
}

func plus(x, y dashboardclient.Usage) dashboardclient.Usage {
	return dashboardclient.Usage{Used: x.Used + y.Used, Total: x.Total + y.Total}
}

// usedOf formats used and total, such as 1.5/2.
func usedOf(u dashboardclient.Usage) string {
	if u.Total == 0 {
		return "-"
	}
	number := func(f float64) string { return strconv.FormatFloat(float64(int(f*100+0.5))/100, 'f', -1, 64) }
	return number(u.Used) + "/" + number(u.Total)
}

func measured(known bool, percent float64) string {
	if !known {
		return "-"
	}
	return fmt.Sprintf("%.0f", percent)
}

// gpuPercent is the mean over a node's GPUs.
func gpuPercent(gpus []dashboardclient.GPULoad) string {
	sum := 0.0
	for _, g := range gpus {
		sum += g.Percent
	}
	return measured(len(gpus) > 0, sum/float64(max(len(gpus), 1)))
}

// usedGiB formats used and total bytes, such as 1.9/23.5 GiB.
func usedGiB(u dashboardclient.Usage) string {
	if u.Total == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f/%.1f GiB", u.Used/(1<<30), u.Total/(1<<30))
}
