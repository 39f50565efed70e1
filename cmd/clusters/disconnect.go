package clusters

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

const defaultDisconnect = "2m"

// disconnectFlag is --end-on-disconnect[=2m]. A command that watches until the end has it by default if CI=true.
type disconnectFlag struct{ text string }

func (d *disconnectFlag) add(c *cobra.Command, byDefault string) {
	c.Flags().StringVar(&d.text, "end-on-disconnect", "", "end the cluster if no rayctl watches it for so long, 0 is never (default: "+byDefault+")")
	c.Flags().Lookup("end-on-disconnect").NoOptDefVal = defaultDisconnect
}

// value is the time in force; stays means that this command watches the cluster until its end.
func (d *disconnectFlag) value(a *app.App, stays bool) (time.Duration, error) {
	text := d.text
	switch {
	case text == "" && stays && a.Getenv("CI") == "true":
		text = defaultDisconnect
	case text == "":
		return 0, nil
	}
	t, err := units.ParseDuration(text)
	switch {
	case err != nil:
		return 0, app.UsageError("", "--end-on-disconnect: %v", err)
	case t != 0 && t < 5*time.Second:
		return 0, app.UsageError("give 5s or more, as a short network failure would end the run", "--end-on-disconnect: %s is too short", text)
	}
	return t, nil
}
