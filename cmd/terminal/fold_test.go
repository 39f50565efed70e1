package terminal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFold(t *testing.T) {
	for what, c := range map[string]struct{ text, want string }{
		"short":             {"one  line", "one  line"},
		"between words":     {"the driver exited with code 3", "the driver exited\nwith code 3"},
		"a command":         {"next: `rayctl logs -f x`, or `rayctl down x` or so", "next:\n`rayctl logs -f x`,\nor `rayctl down x`\nor so"},
		"one that is open":  {"it's ` in the middle of it", "it's ` in the middle\nof it"},
		"a unit":            {"it is too long (574 bytes) for it", "it is too long\n(574 bytes) for it"},
		"a long word":       {"see https://example.com/long now", "see\nhttps://example.com/long\nnow"},
		"indented":          {"head\n  used    3 node-seconds", "head\n  used    3\n  node-seconds"},
		"colours":           {"\x1b[31mrayctl:\x1b[0m it is not there", "\x1b[31mrayctl:\x1b[0m it is not\nthere"},
		"wide characters":   {"节点节点节点节点节点 e\u0301e\u0301", "节点节点节点节点节点\ne\u0301e\u0301"},
		"more than letters": {"äöüäöüäöü äöüäöüäöü", "äöüäöüäöü äöüäöüäöü"},
	} {
		if d := cmp.Diff(c.want, fold(c.text, narrowest)); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	const long = "a note that is longer than a narrow terminal"
	if fold(long, 0) != long {
		t.Error("a text is broken where there is no terminal")
	}
}
