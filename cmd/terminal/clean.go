package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes a foreign string harmless on a terminal. Control characters (escape sequences, carriage returns, C1 too), characters that change
// the direction of writing, and bytes that are no UTF-8 become Go escapes. Line ends and tabs stay.
func Clean(s string) string {
	if !strings.ContainsFunc(s, dangerous) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case !dangerous(r):
			b.WriteRune(r)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r == utf8.RuneError:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func dangerous(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError
}

// CleanJSON writes JSON with those characters as JSON escapes; encoding/json escapes only the first 32. They occur only in strings.
func CleanJSON(w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		var b strings.Builder
		for _, r := range string(p) {
			if dangerous(r) {
				fmt.Fprintf(&b, `\u%04x`, r)
				continue
			}
			b.WriteRune(r)
		}
		if _, err := io.WriteString(w, b.String()); err != nil {
			return 0, err
		}
		return len(p), nil
	})
}

// Painted is rayctl's own text with colours, which clean leaves unchanged.
type Painted string

// cleanArgs cleans the arguments of a format.
func cleanArgs(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case Painted, bool, int, int64, float64:
			out[i] = v
		default:
			out[i] = Clean(fmt.Sprint(v))
		}
	}
	return out
}
