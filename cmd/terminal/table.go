package terminal

import (
	"io"
	"os"
	"regexp"
	"strings"

	"golang.org/x/term"
)

// gap is the number of spaces between columns.
const gap = 3

// indent is that of columns for which a row's first line has no room.
const indent = 4

// narrowest is the least width in which a wrapped column is readable.
const narrowest = 20

// Table writes rows in columns; the first is the head. On a terminal the last column is wrapped between words, and columns that do not fit beside the
// others are on a line of their own below them, as is a last cell with a long word. Cells that are longer than such a line are wrapped, too.
func Table(w io.Writer, rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = OneLine(cell)
		}
	}
	var paint func(cell string) string
	if isTerminal(w) && colored(os.Getenv) {
		paint = paintState
	}
	_, err := io.WriteString(w, layout(rows, columnsOf(w), paint))
	return err
}

// stateEnd is what follows a state in a cell.
var stateEnd = regexp.MustCompile(`: | \(`)

// states are the colours of the states of clusters, jobs, nodes, and applications.
var states = map[string]Color{
	"Ready": green, "RUNNING": green, "ALIVE": green, "SUCCEEDED": green, "HEALTHY": green,
	"Queued": yellow, "Provisioning": yellow, "Starting": yellow, "Suspended": yellow, "WAITING": yellow, "PENDING": yellow, "STARTING": yellow, "DEPLOYING": yellow,
	"Lost": Red, "FAILED": Red, "DEAD": Red, "UNHEALTHY": Red, "DEPLOY_FAILED": Red,
	"Ending": dim, "Ended": dim, "ENDED": dim, "STOPPED": dim, "DELETING": dim,
}

// paintState colours a cell that is a state, or begins with one, as in Ready (3 min 2 s).
func paintState(cell string) string {
	word := cell
	if end := stateEnd.FindStringIndex(cell); end != nil {
		word = cell[:end[0]]
	}
	if color, ok := states[word]; ok {
		return painted(color, word) + cell[len(word):]
	}
	return cell
}

// columnsOf is the width of the terminal behind a stream; 0 if there is none.
func columnsOf(w io.Writer) int {
	f := fileOf(w)
	if f == nil {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// fileOf is the file that a stream writes to; nil if it is none.
func fileOf(w io.Writer) *os.File {
	if out, ok := w.(interface{ Writer() io.Writer }); ok {
		w = out.Writer()
	}
	f, _ := w.(*os.File)
	return f
}

// isTerminal reports whether a stream is a terminal, also one that does not tell its width.
func isTerminal(w io.Writer) bool {
	f := fileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// Narrow reports whether w is a terminal with less room than a table of many columns needs.
func Narrow(w io.Writer) bool {
	width := columnsOf(w)
	return width > 0 && width < 110
}

// column is a column's place: the line of its row, where it begins there, and how wide it is.
type column struct{ line, begin, width int }

// layout is a table, of cells of one line, of a width; 0 is any width. paint colours a cell, unless it is nil.
func layout(rows [][]string, width int, paint func(cell string) string) string {
	if len(rows) == 0 {
		return ""
	}
	columns := places(rows, width)
	last := len(columns) - 1
	var b strings.Builder
	for number, row := range rows {
		end, wrapped := columns[last], row[last:]
		if width > 0 {
			end = roomFor(row[last], end, width)
			wrapped = wrap(row[last], max(width-end.begin, 1))
		}
		line, more := text{b: &b}, 0 // how many lines the cells so far have more than one
		if number > 0 {              // the head has the words of its columns
			line.paint = paint
		}
		for i, c := range columns[:last] {
			for n, words := range cellLines(row[i], c, width) {
				more += min(n, 1)
				line.put(column{line: c.line + more, begin: c.begin}, words)
			}
		}
		for i, words := range wrapped {
			line.put(column{line: end.line + more + i, begin: end.begin}, words)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// cellLines are the lines of a cell that is not the last: one, if the terminal has room for it. Right of a longer one there is no other.
func cellLines(cell string, place column, width int) []string {
	if width == 0 || place.begin+widthOf(cell) <= width {
		return []string{cell}
	}
	return wrap(cell, max(width-place.begin, 1))
}

// roomFor is the place of a row's last cell: below the others if only there is room for its longest word, which a terminal would break otherwise.
func roomFor(cell string, place column, width int) column {
	longest := 0
	for _, word := range strings.Fields(cell) {
		longest = max(longest, widthOf(word))
	}
	if place.begin+longest > width && indent+longest <= width && place.begin > indent {
		return column{line: place.line + 1, begin: indent}
	}
	return place
}

// places puts as many columns on a row's line as fit.
func places(rows [][]string, width int) []column {
	columns := make([]column, len(rows[0]))
	line, begin := 0, 0
	for i := range columns {
		widest := 0
		for _, row := range rows {
			widest = max(widest, widthOf(row[i]))
		}
		needed := widest
		if i == len(columns)-1 {
			needed = min(widest, narrowest) // it is wrapped
		}
		if width > 0 && begin > 0 && begin+needed > width {
			line, begin = line+1, indent
		}
		columns[i] = column{line: line, begin: begin, width: widest}
		begin += widest + gap
	}
	return columns
}

// text writes the cells of one row.
type text struct {
	b        *strings.Builder
	paint    func(cell string) string
	line, at int
}

// put writes a cell at its place; an empty one leaves no trace.
func (t *text) put(c column, cell string) {
	if cell == "" {
		return
	}
	for ; t.line < c.line; t.line, t.at = t.line+1, 0 {
		t.b.WriteByte('\n')
	}
	t.b.WriteString(strings.Repeat(" ", max(0, c.begin-t.at)))
	t.at = max(t.at, c.begin) + widthOf(cell)
	if t.paint != nil {
		cell = t.paint(cell)
	}
	t.b.WriteString(cell)
}

// wrap breaks a text between words into lines of at most width characters, where words are that short.
func wrap(text string, width int) []string {
	out := []string{""}
	for _, word := range strings.Fields(text) {
		line := &out[len(out)-1]
		switch {
		case *line == "":
			*line = word
		case widthOf(*line)+1+widthOf(word) <= width:
			*line += " " + word
		default:
			out = append(out, word)
		}
	}
	return out
}
