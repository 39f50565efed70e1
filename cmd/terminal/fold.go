package terminal

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// words are a line's words with the spaces behind them. A command in backquotes is one word, so that it can be copied from the terminal, and so is a number
// with its unit.
var words = regexp.MustCompile("((?:`[^`]*`|\\b[0-9.]+ (?:bytes|[KMG]iB|[KMG]?B|ms|s|min)\\b|[^ ])+)( *)")

// colourCodes take no room on a terminal.
var colourCodes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// widthOf is how many columns of a terminal a text takes: Chinese characters and emoji take two, combining ones none.
func widthOf(s string) (n int) {
	for _, r := range colourCodes.ReplaceAllString(s, "") {
		n += columnsOfRune(r)
	}
	return n
}

func columnsOfRune(r rune) int {
	switch {
	case r < 0x300: // before the first combining character
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

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

// WriteHelp writes a line of an explanation as WriteLine does, and no wider than reads well.
func WriteHelp(w io.Writer, line string) error {
	_, err := fmt.Fprintln(w, fold(line, min(columnsOf(w), helpWidest)))
	return err
}
