package terminal

import (
	"fmt"
	"io"
	"regexp"
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

// Stamp is a time in a text for a stream: the local one on a terminal, elsewhere UTC.
func Stamp(w io.Writer, t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case isTerminal(w):
		return t.Local().Format(time.DateTime)
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
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 9_950:
		return fmt.Sprintf("%.1f KB", float64(n)/1e3)
	case n < 999_500:
		return fmt.Sprintf("%.0f KB", float64(n)/1e3)
	case n < 9_950_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n < 999_500_000:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	default:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
}

// Help is read on terminals of at least 80 columns, and long lines read badly.
const (
	helpColumns = 80
	helpWidest  = 110
)

// HelpWidth is how wide a line of help may be on a stream.
func HelpWidth(w io.Writer) int {
	if width := columnsOf(w); width > narrowest {
		return min(width, helpWidest)
	}
	return helpColumns
}

// Reflow breaks paragraphs anew, between words, into lines of a width. Indented lines, which are lists and examples, stay as they are.
func Reflow(text string, width int) string {
	var out, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out = append(out, wrap(strings.Join(paragraph, " "), width)...)
			paragraph = nil
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if line != "" && !strings.HasPrefix(line, " ") {
			paragraph = append(paragraph, line)
			continue
		}
		end()
		out = append(out, line)
	}
	end()
	return strings.Join(out, "\n")
}

var (
	listed  = regexp.MustCompile(`^( +\S+ {2,})(\S.*)$`)
	command = regexp.MustCompile(`^( +)((?:rayctl|eval) .*?)(?: +(# .*))?$`)
)

// FitHelp breaks the lines of lists and examples that are longer than width: texts of a list below their beginning, commands so that they can be copied.
func FitHelp(text string, width int) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		item, example := listed.FindStringSubmatch(line), command.FindStringSubmatch(line)
		switch {
		case widthOf(line) <= width:
			out = append(out, line)
		case example != nil:
			if example[3] != "" {
				out = append(out, foldLine(example[1]+example[3], width)...)
			}
			lines := foldLine(example[1]+example[2], width-len(` \`)-indent)
			out = append(out, strings.Join(lines, " \\\n"+strings.Repeat(" ", indent)))
		case item != nil:
			begin := item[1]
			for _, words := range wrap(item[2], max(width-len(begin), narrowest)) {
				out = append(out, begin+words)
				begin = strings.Repeat(" ", len(item[1]))
			}
		default:
			out = append(out, foldLine(line, width)...)
		}
	}
	return strings.Join(out, "\n")
}
