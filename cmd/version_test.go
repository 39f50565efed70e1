package cmd

import "testing"

// TestSource: only a build of a release has a tag that files of other repositories may name. What go test builds has no commit, either.
func TestSource(t *testing.T) {
	for version, want := range map[string]string{
		"v0.1.0": "v0.1.0", "dev": "", "": "", "v0.1.0-3-gabcdef0": "", "v0.0.0-20260101000000-abcdefabcdef": "", "v0.1.0-dirty": "", "v1.2.3-SNAPSHOT-abc": "",
	} {
		if got := (build{Version: version}).source(); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}
