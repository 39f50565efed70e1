package files

import "testing"

func TestParsePlace(t *testing.T) {
	for text, want := range map[string]place{
		"dev:/tmp/x": {remote: true, cluster: "dev", path: "/tmp/x"},
		":/tmp/a:b":  {remote: true, path: "/tmp/a:b"},
		"./a:b":      {path: "./a:b"},
		"/a:b":       {path: "/a:b"},
		"plain":      {path: "plain"},
	} {
		if got := parsePlace(text); got != want {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}
