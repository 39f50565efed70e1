package spec

import "testing"

func TestNames(t *testing.T) {
	for text, want := range map[string]string{"My Project!": "my-project", "": "ray", "日本": "ray", "a.b": "a-b", "/": "ray", "x123456789012345678901234567890123456789": "x123456789012345678901234567890123"} {
		if got := NameFrom(text); got != want || CheckName(got) != nil {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
