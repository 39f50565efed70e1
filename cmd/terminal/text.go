package terminal

import (
	"fmt"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
)

// Shorten keeps a table in shape.
func Shorten(s string, wide bool) string {
	r := []rune(OneLine(s))
	if wide || len(r) <= 60 {
		return string(r)
	}
	return string(r[:59]) + "…"
}

// Ago is the age of a moment: 46 s, 3 min 20 s.
func Ago(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return launcher.Human(max(now.Sub(t).Truncate(time.Second).Seconds(), 0))
}

// Stamp is a time in a table.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return launcher.Stamp(t)
}

// OrDash stands - for an empty cell.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// OneLine makes foreign text fit one line or column.
func OneLine(s string) string { return Clean(strings.Join(strings.Fields(s), " ")) }

// Size prints a number of bytes for a person.
func Size(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n < 10_000_000_000:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	default:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
}
