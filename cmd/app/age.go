package app

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/launcher/spec/units"
)

// AgeUsage is how the value of a flag with an age is written, for its help.
const AgeUsage = "as in 24h or 1w, or a local date or time such as 2006-01-02 or '2006-01-02 15:04'"

// moments are the layouts of a date or a time, without a zone in local time.
var moments = []string{time.RFC3339, "2006-01-02", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"}

// Age is how long ago the moment is that a flag names: by a duration, a date (its beginning) or a time.
func (a *App) Age(flag, text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	for _, layout := range moments {
		at, err := time.ParseInLocation(layout, text, time.Local)
		if err != nil {
			continue
		}
		age := a.Now().Sub(at)
		if age < 0 {
			return 0, UsageError("give a moment that has passed", "--%s: %s is in the future", flag, text)
		}
		return age, nil
	}
	age, err := units.ParseDuration(text)
	if err != nil {
		return 0, UsageError("write how long ago, like 90m, 24h, 7d or 1w, or a date or time, like "+a.Now().Local().Format("2006-01-02, '2006-01-02 15:04' or 2006-01-02T15:04:05Z07:00"),
			"--%s: %s is neither a duration nor a date", flag, strconv.Quote(text))
	}
	return age, nil
}

// CompleteAge completes a flag with an age.
func (a *App) CompleteAge(c *cobra.Command, flag string) {
	Complete(c, flag, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		today := a.Now().Local()
		return []cobra.Completion{
			cobra.CompletionWithDesc("24h", "a duration: one day ago"), cobra.CompletionWithDesc("1w", "a duration: one week ago"),
			cobra.CompletionWithDesc(today.Format("2006-01-02"), "a date: the beginning of today"),
			cobra.CompletionWithDesc(today.AddDate(0, 0, -1).Format("2006-01-02"), "a date: the beginning of yesterday"),
		}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	})
}
