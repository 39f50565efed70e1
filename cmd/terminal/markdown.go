package terminal

import (
	"io"
	"os"
	"regexp"
	"strings"
)

// Markdown writes a document of the manual: on a terminal laid out for its width, elsewhere as it is. more is what a link's target adds to its text, "" for nothing.
// It knows what our documents use: headings, paragraphs, lists, tables, and code, which is never broken so that it can be copied. glamour 1.0 breaks commands, options and
// paths at the width, drops the marks of code and fills lines with blanks, for 26 modules and 9 MB more.
func Markdown(w io.Writer, document string, more func(target string) string) error {
	document = strings.TrimSuffix(document, "\n")
	if width := columnsOf(w); width >= narrowest {
		document = rendered(document, width, colored(os.Getenv), more)
	}
	_, err := io.WriteString(w, document+"\n")
	return err
}

// page is a document that is being laid out.
type page struct {
	width     int
	color     bool
	more      func(target string) string
	out       []string
	paragraph []string   // lines of the paragraph or list item that has not ended
	rows      [][]string // of the table that has not ended
}

var (
	fence   = regexp.MustCompile("^ *```")
	heading = regexp.MustCompile(`^#{1,6} `)
	ruler   = regexp.MustCompile(`^\|[-:| ]+\|$`)
	item    = regexp.MustCompile(`^ *(?:[-*]|\d+\.) +`)
	comment = regexp.MustCompile(`^<!--.*-->$`)
	// mark is code, or else a link, or else what is important.
	mark = regexp.MustCompile("`[^`]*`|\\[((?:[^\\]`]|`[^`]*`)+)\\]\\(([^)\\s]+)\\)|\\*\\*((?:[^*`]|`[^`]*`)+)\\*\\*")
)

func rendered(document string, width int, color bool, more func(target string) string) string {
	p := &page{width: width, color: color, more: more}
	code := false
	for _, line := range strings.Split(document, "\n") {
		switch {
		case fence.MatchString(line):
			p.end()
			code = !code
		case code:
			p.out = append(p.out, strings.TrimRight("    "+line, " "))
		case strings.HasPrefix(line, "|"):
			p.row(line)
		default:
			p.text(line)
		}
	}
	p.end()
	return strings.Join(p.out, "\n")
}

// text takes a line that is neither code nor of a table.
func (p *page) text(line string) {
	switch {
	case comment.MatchString(line):
	case strings.TrimSpace(line) == "":
		p.end()
		p.out = append(p.out, "")
	case heading.MatchString(line):
		p.end()
		p.out = append(p.out, p.title(line))
	case item.MatchString(line):
		p.end()
		p.paragraph = []string{line}
	default:
		p.paragraph = append(p.paragraph, line)
	}
}

// title is a heading. Without bold letters its marks distinguish it.
func (p *page) title(line string) string {
	if !p.color {
		return p.inline(line, false)
	}
	return painted(Bold, p.inline(strings.TrimLeft(line, "# "), false))
}

// row takes a line of a table.
func (p *page) row(line string) {
	if len(p.rows) == 0 {
		p.end()
	}
	if !ruler.MatchString(line) {
		p.rows = append(p.rows, p.cells(line))
	}
}

// cells are those of a line of a table. A \| is no border.
func (p *page) cells(line string) []string {
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
	cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
	for i, cell := range cells {
		cells[i] = p.inline(strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")), false)
	}
	return cells
}

// inline is a text without the marks of links and of what is important, which is bold where that is possible.
func (p *page) inline(text string, bold bool) string {
	return mark.ReplaceAllStringFunc(text, func(whole string) string {
		parts := mark.FindStringSubmatch(whole)
		words, target, important := parts[1], parts[2], parts[3]
		switch {
		case important != "" && bold && p.color:
			return painted(Bold, p.inline(important, false))
		case important != "":
			return p.inline(important, false)
		case words == "":
			return whole
		}
		if more := p.more(target); more != "" {
			return words + " (" + more + ")"
		}
		return words
	})
}

// end lays out the paragraph, list item or table that has not ended.
func (p *page) end() {
	if len(p.paragraph) > 0 {
		bullet := item.FindString(p.paragraph[0])
		p.paragraph[0] = strings.TrimPrefix(p.paragraph[0], bullet)
		for i, line := range p.paragraph {
			p.paragraph[i] = strings.TrimSpace(line)
		}
		text := p.inline(strings.Join(p.paragraph, " "), true)
		for i, line := range foldLine(text, min(p.width, helpWidest)-len(bullet)) {
			if i == 0 {
				p.out = append(p.out, bullet+line)
				continue
			}
			p.out = append(p.out, strings.Repeat(" ", len(bullet))+line)
		}
	}
	if len(p.rows) > 0 {
		p.out = append(p.out, p.table()...)
	}
	p.paragraph, p.rows = nil, nil
}

// table is the table, each of whose cells is as wide as the terminal allows. Where a word has no room in its column the cells are below one another.
func (p *page) table() []string {
	for i, row := range p.rows { // as many cells as the head
		p.rows[i] = append(row, make([]string, max(0, len(p.rows[0])-len(row)))...)[:len(p.rows[0])]
	}
	widths := columnWidths(p.rows, p.width)
	if widths == nil {
		return p.list()
	}
	var out []string
	for number, row := range p.rows {
		cells, height := make([][]string, len(row)), 0
		for i, cell := range row {
			cells[i] = wrap(cell, widths[i])
			height = max(height, len(cells[i]))
		}
		for n := range height {
			var line strings.Builder
			for i, cell := range cells {
				words := ""
				if n < len(cell) {
					words = cell[n]
				}
				line.WriteString(words + strings.Repeat(" ", widths[i]-widthOf(words)+gap))
			}
			text := strings.TrimRight(line.String(), " ")
			if number == 0 && p.color {
				text = painted(Bold, text)
			}
			out = append(out, text)
		}
	}
	return out
}

// list is a table for which the terminal is too narrow.
func (p *page) list() (out []string) {
	for _, row := range p.rows {
		for i, cell := range row {
			begin := "    "
			if i == 0 {
				begin = ""
			}
			if cell != "" {
				out = append(out, foldLine(begin+cell, p.width)...)
			}
		}
	}
	return out
}

// columnWidths are the widths of a table's columns, of which the widest ones are made narrower until all fit; nil if a word does not.
func columnWidths(rows [][]string, width int) []int {
	widths, least := make([]int, len(rows[0])), make([]int, len(rows[0]))
	total := gap * (len(widths) - 1)
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], widthOf(row[i]))
			for _, word := range strings.Fields(row[i]) {
				least[i] = max(least[i], widthOf(word))
			}
		}
		total += widths[i]
	}
	for ; total > width; total-- {
		widest := -1
		for i, w := range widths {
			if w > least[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return nil
		}
		widths[widest]--
	}
	return widths
}
