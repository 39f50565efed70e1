package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"
	"sigs.k8s.io/yaml"
)

// WriteJSON writes an answer as JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(CleanJSON(w))
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// WriteYAML writes an answer as YAML.
func WriteYAML(w io.Writer, v any) error {
	data, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	_, err = w.Write(data)
	return err
}

// Table writes rows in columns; the first is the head. On a terminal the last column is wrapped between words.
func Table(w io.Writer, rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = OneLine(cell)
		}
	}
	t := tabwriter.NewWriter(w, 0, 8, gap, ' ', 0)
	for _, row := range wrapped(rows, columnsOf(w)) {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// gap is the number of spaces between columns.
const gap = 3

// columnsOf is the width of the terminal behind a stream; 0 if there is none.
func columnsOf(w io.Writer) int {
	if out, ok := w.(interface{ Writer() io.Writer }); ok {
		w = out.Writer()
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// wrapped breaks the last column between words, so that a row fits the width; 0 is any width. A word longer than the column stays whole.
func wrapped(rows [][]string, width int) [][]string {
	if width == 0 || len(rows) == 0 {
		return rows
	}
	last := len(rows[0]) - 1
	room := width
	for i := range last {
		widest := 0
		for _, row := range rows {
			widest = max(widest, utf8.RuneCountInString(row[i]))
		}
		room -= widest + gap
	}
	room = max(room, 20) // narrower columns are not readable
	var out [][]string
	for _, row := range rows {
		for i, line := range lines(row[last], room) {
			broken := make([]string, last+1)
			if i == 0 {
				copy(broken, row)
			}
			broken[last] = line
			out = append(out, broken)
		}
	}
	return out
}

// lines breaks a text between words into lines of at most width characters, where words are that short.
func lines(text string, width int) []string {
	out := []string{""}
	for _, word := range strings.Fields(text) {
		line := &out[len(out)-1]
		switch {
		case *line == "":
			*line = word
		case utf8.RuneCountInString(*line)+1+utf8.RuneCountInString(word) <= width:
			*line += " " + word
		default:
			out = append(out, word)
		}
	}
	return out
}

// NonNil makes an empty JSON list of no rows, instead of null.
func NonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
