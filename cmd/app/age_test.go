package app

import (
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestAge: a duration, or a date or a time in local time, is how long ago that was.
func TestAge(t *testing.T) {
	zone := time.Local
	time.Local = time.FixedZone("Kathmandu", 5*3600+45*60)
	t.Cleanup(func() { time.Local = zone })
	a := &App{Streams: terminal.Streams{Now: func() time.Time { return time.Date(2026, 11, 30, 6, 15, 0, 0, time.UTC) }}} // noon in Kathmandu
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "1w": 7 * 24 * time.Hour, "0": 0, "3-12:00:00": 84 * time.Hour, "1:30:00": 90 * time.Minute,
		"2026-11-30": 12 * time.Hour, "2026-11-23": 7*24*time.Hour + 12*time.Hour, "2026-11-30 11:30": 30 * time.Minute, "2026-11-30T11:30:30": 29*time.Minute + 30*time.Second,
		"2026-11-30T05:15:00Z": time.Hour, "2026-11-30T06:00:00+05:45": 6 * time.Hour, " 2026-11-30 12:00:00 ": 0,
	} {
		if got, err := a.Age("since", text); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"2026-12-01":                "--since: 2026-12-01 is in the future: give a moment that has passed",
		"2026-13-01":                `--since: "2026-13-01" is neither a duration nor a date: write how long ago, like 90m, 24h, 7d or 1w, or a date or time, like 2026-11-30, '2026-11-30 12:00' or 2026-11-30T12:00:00+05:45`,
		"soon":                      `"soon" is neither a duration nor a date`,
		"":                          `"" is neither`,
		"\x1b[31m":                  `"\x1b[31m" is neither`,
		"2026-11-30T05:15:00Z; rm*": "is neither",
		"90":                        `"90" is neither`,
	} {
		if _, err := a.Age("since", text); err == nil || !strings.Contains(err.Error(), want) || ExitCode(err) != runstate.CodeUsage {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
}
