package cmd

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/launcher/spec"
)

const defaultDisconnect = "2m"

// disconnectFlag is --end-on-disconnect[=2m], on by default where CI=true.
type disconnectFlag struct{ text string }

func (d *disconnectFlag) add(c *cobra.Command) {
	c.Flags().StringVar(&d.text, "end-on-disconnect", "", "end the cluster if this process is gone for so long, 0 is never (default: 2m if CI=true, else never)")
	c.Flags().Lookup("end-on-disconnect").NoOptDefVal = defaultDisconnect
}

func (d *disconnectFlag) value(a *App) (time.Duration, error) {
	text := d.text
	switch {
	case text == "" && a.Getenv("CI") == "true":
		text = defaultDisconnect
	case text == "":
		return 0, nil
	}
	t, err := spec.ParseDuration(text)
	switch {
	case err != nil:
		return 0, usageError("", "--end-on-disconnect: %v", err)
	case t != 0 && t < 5*time.Second:
		return 0, usageError("give 5s or more, as a short network failure would end the run", "--end-on-disconnect: %s is too short", text)
	}
	return t, nil
}
