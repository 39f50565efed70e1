package terminal

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// words are a line's words with the spaces behind them. A command in backquotes is one word, so that it can be copied from the terminal, and so is a number
// with its unit.
var words = regexp.MustCompile("((?:`[^`]*`|\\b[0-9.]+ (?:bytes|[KMG]iB|[KMG]?B|ms|s|min)\\b|[^ ])+)( *)")

// colourCodes take no room on a terminal.
var colourCodes = regexp.MustCompile("\x1b\\[[0-9;]*m")

func widthOf(s string) int { return utf8.RuneCountInString(colourCodes.ReplaceAllString(s, "")) }

// fold breaks the lines of a text that are longer than width between words; what follows has the indentation of the line. 0 is any width.
func fold(text string, width int) string {
	if width < narrowest {
		return text
	}
	var out []string
	for _, line := range strings.Split(text, "\n") {
		out = append(out, foldLine(line, width)...)
	}
	return strings.Join(out, "\n")
}

func foldLine(line string, width int) []string {
	if widthOf(line) <= width {
		return []string{line}
	}
	bare := strings.TrimLeft(line, " ")
	begin := line[:len(line)-len(bare)]
	out := []string{begin}
	for _, w := range words.FindAllStringSubmatch(bare, -1) {
		last := &out[len(out)-1]
		if *last != begin && widthOf(*last+w[1]) > width {
			*last = strings.TrimRight(*last, " ")
			out = append(out, begin+w[0])
			continue
		}
		*last += w[0]
	}
	return out
}

// WriteLine writes a line, which a terminal would break inside a word if it is longer than the terminal is wide: it is broken between words.
func WriteLine(w io.Writer, line string) error {
	_, err := fmt.Fprintln(w, fold(line, columnsOf(w)))
	return err
}
