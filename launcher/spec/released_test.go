package spec_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
)

// TestHashesOfReleasedVersions holds the hashes that released versions stored with running clusters: with another hash, a repeated command would be
// refused as one for another cluster. Each file of testdata/hashes.json sets other keys; a new key gets a new entry, and no entry ever changes.
func TestHashesOfReleasedVersions(t *testing.T) {
	data, err := os.ReadFile("testdata/hashes.json")
	if err != nil {
		t.Fatal(err)
	}
	var files []map[string]string
	if err := json.Unmarshal(data, &files); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		s := mustDecode(t, f["file"])
		for _, name := range spec.Launchers() {
			want, ok := f[name]
			if got := spec.Hash(spec.For(s, name)); ok && got != want {
				t.Errorf("%s: the hash is %s, it was %s, for\n%s", name, got, want, f["file"])
			}
		}
	}
}

// TestRecordsAreReadBack checks the JSON form, in which clusters' records keep a file.
func TestRecordsAreReadBack(t *testing.T) {
	s := mustDecode(t, design)
	first, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back spec.ClusterSpec
	if err := json.Unmarshal(first, &back); err != nil {
		t.Fatal(err)
	}
	if second, err := json.Marshal(back); err != nil || string(second) != string(first) {
		t.Errorf("%v:\n%s\n%s", err, first, second)
	}
	if err := json.Unmarshal([]byte(`{"name": "a", "unheard": 1, "workers": [{"name": "w", "unheard": {}}]}`), &back); err != nil {
		t.Errorf("a key of a later version: %v", err)
	}
}
