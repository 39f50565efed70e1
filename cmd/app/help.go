package app

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/terminal"
)

// prepareHelp makes the help of all commands fit the terminal: texts and flags are wrapped between words.
func (a *App) prepareHelp(root *cobra.Command) {
	width := terminal.HelpWidth(a.Out)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped "+strconv.Itoa(width)))

	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		text := c.Long
		if text == "" {
			text = c.Short
		}
		fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s", terminal.Reflow(text, width), c.UsageString())
	})
}
