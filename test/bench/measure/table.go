package measure

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Row is one line of the table.
type Row struct{ What, Today, Rayctl, Goal, Met string }

// unit formats one figure.
type unit func(float64) string

// Seconds is a unit.
func Seconds(v float64) string {
	switch {
	case math.Abs(v) < 0.1:
		return fmt.Sprintf("%.3f s", v)
	case math.Abs(v) < 10:
		return fmt.Sprintf("%.2f s", v)
	}
	return fmt.Sprintf("%.1f s", v)
}

// Megabytes is a unit, of values in bytes.
func Megabytes(v float64) string { return fmt.Sprintf("%.0f MB", v/1e6) }

// Median is the middle value, of an even number of values the mean of the two in the middle.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Figures formats the median with the extremes. Of no values there is nothing to compare with.
func Figures(values []float64, u unit) string {
	if len(values) == 0 {
		return "none"
	}
	text := u(Median(values))
	if len(values) > 1 {
		text += fmt.Sprintf(" (%s to %s)", u(slices.Min(values)), u(slices.Max(values)))
	}
	return text
}

// Compare makes a row whose goal is that rayctl's median is at most most.
func Compare(measure string, u unit, today, ours []float64, most float64, goal string) Row {
	if goal == "" {
		goal = "at most " + u(most)
	}
	return Row{measure, Figures(today, u), Figures(ours, u), goal, Yes(Median(ours) <= most)}
}

// Yes is how a table shows whether a goal is met.
func Yes(met bool) string {
	if met {
		return "yes"
	}
	return "**no**"
}

// PrintTable writes GitHub's Markdown, in columns aligned for a terminal.
func PrintTable(w io.Writer, rows []Row) {
	cells := [][]string{{"measure", "Ray's own tool", "rayctl", "goal", "met?"}}
	for _, r := range rows {
		cells = append(cells, []string{r.What, r.Today, r.Rayctl, r.Goal, r.Met})
	}
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for i, line := range cells {
		for j, cell := range line {
			fmt.Fprintf(w, "| %-*s ", widths[j], cell)
		}
		fmt.Fprintln(w, "|")
		if i == 0 {
			for _, width := range widths {
				fmt.Fprintf(w, "|%s", strings.Repeat("-", width+2))
			}
			fmt.Fprintln(w, "|")
		}
	}
}
