package tail

import "testing"

// What is kept is the end, however it was written.
func TestTail(t *testing.T) {
	for name, writes := range map[string][]string{"pieces": {"one\n", "two\n", "six \n\n"}, "whole": {"one\ntwo\nsix \n\n"}} {
		kept := &Tail{Size: 8}
		for _, w := range writes {
			if n, err := kept.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%s: wrote %d of %q, %v", name, n, w, err)
			}
		}
		if kept.String() != "wo\nsix \n\n"[1:] || kept.LastLine() != "six" {
			t.Errorf("%s: %q, last line %q", name, kept.String(), kept.LastLine())
		}
	}
}
