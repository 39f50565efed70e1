package jobs

import (
	"context"
	"fmt"
	"strings"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// printReceipt accounts for a job that submit has followed, in the form of the receipt of a run. What only the cluster's keeper knows is left out if that does not answer.
func printReceipt(ctx context.Context, a *app.App, c *app.Connection, done *followed) {
	if a.Quiet {
		return
	}
	j := done.Job
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", app.JobName(j), ending(j))
	if !j.StartTime.IsZero() && !j.EndTime.IsZero() {
		fmt.Fprintf(&b, "  time    %s\n", split(j.EndTime.Sub(j.StartTime).Seconds(), done.waited.Seconds()))
	}
	fmt.Fprintf(&b, "  log     `rayctl logs%s %s`", c.Flags(), app.JobName(j))
	if c.Cluster() != nil {
		if s, err := c.Cluster().Status(ctx); err == nil && s.Output() != "" {
			fmt.Fprintf(&b, "\n  output  %s", s.Output())
		}
	}
	a.UI.Line(terminal.Clean(b.String()))
}

// split is how long a job took, and if it waited for a second or more, also how long for that. The head has the one time and this machine the other.
func split(all, waited float64) string {
	text := launcher.Human(all) + " from the submission to the end"
	if waited = min(waited, all); waited < 1 {
		return text
	}
	return text + fmt.Sprintf(": %s before the driver began (packages, free CPUs and GPUs), %s of the driver", launcher.Human(waited), launcher.Human(all-waited))
}

// ending is how a job ended, in a few words: what there is to say of a failure has its own message.
func ending(j *dashboardclient.Job) string {
	switch code, own := app.JobCode(j); {
	case code == 0:
		return "succeeded"
	case own:
		return fmt.Sprintf("failed: the driver exited with code %d", code)
	case code == runstate.CodeInterrupted:
		return "was stopped"
	case code == runstate.CodeStartFailed:
		return "failed: the driver did not start"
	}
	return "was lost"
}
