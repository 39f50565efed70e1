package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// row is one line of the table.
type row struct{ measure, today, rayctl, goal, met string }

// unit formats one figure.
type unit func(float64) string

func seconds(v float64) string {
	switch {
	case math.Abs(v) < 0.1:
		return fmt.Sprintf("%.3f s", v)
	case math.Abs(v) < 10:
		return fmt.Sprintf("%.2f s", v)
	}
	return fmt.Sprintf("%.1f s", v)
}

func megabytes(v float64) string { return fmt.Sprintf("%.0f MB", v/1e6) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// figures formats the median with the extremes. Of no values there is nothing to compare with.
func figures(values []float64, u unit) string {
	if len(values) == 0 {
		return "none"
	}
	text := u(median(values))
	if len(values) > 1 {
		text += fmt.Sprintf(" (%s to %s)", u(slices.Min(values)), u(slices.Max(values)))
	}
	return text
}

// compare makes a row whose goal is that rayctl's median is at most most.
func compare(measure string, u unit, today, ours []float64, most float64, goal string) row {
	if goal == "" {
		goal = "at most " + u(most)
	}
	return row{measure, figures(today, u), figures(ours, u), goal, yes(median(ours) <= most)}
}

func yes(met bool) string {
	if met {
		return "yes"
	}
	return "**no**"
}

// printTable writes GitHub's Markdown, in columns aligned for a terminal.
func printTable(w io.Writer, rows []row) {
	cells := [][]string{{"measure", "Ray's own tool", "rayctl", "goal", "met?"}}
	for _, r := range rows {
		cells = append(cells, []string{r.measure, r.today, r.rayctl, r.goal, r.met})
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
