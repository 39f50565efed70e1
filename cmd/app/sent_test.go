package app

import (
	"testing"

	"github.com/rayctl/rayctl/dashboardclient/pack"
)

// TestSent is the line that says what is sent and what is not.
func TestSent(t *testing.T) {
	for want, s := range map[string]Sent{
		"1 file, 12 B":     {Files: 1, Bytes: 12},
		"42 files, 1.3 MB": {Files: 42, Bytes: 1_300_000},
		"42 files, 1.3 MB; left out by .gitignore: data/ (3.1 GB), *.ckpt (2)": {Files: 42, Bytes: 1_300_000, LeftOut: []pack.LeftOut{{Name: "data/", Count: 1, Bytes: 3.1e9}, {Name: "*.ckpt", Count: 2}}},
		"0 files, 0 B; left out by .gitignore: data/ (more than 15 MB), build/ (3, 20 B), unread/, .env and 2 more": {LeftOut: []pack.LeftOut{
			{Name: "data/", Count: 1, Bytes: 15e6, More: true}, {Name: "build/", Count: 3, Bytes: 20}, {Name: "unread/", Count: 1, More: true}, {Name: ".env", Count: 1}, {Name: "a"}, {Name: "b"},
		}},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
