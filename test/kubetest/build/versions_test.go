package build

import "testing"

func TestChosenVersions(t *testing.T) {
	for name, ok := range map[string]bool{"": true, "default": true, "oldest": true, "newest": true, "latest": false} {
		t.Setenv(setVariable, name)
		if v, err := Chosen(); (err == nil) != ok || ok && v.Kubernetes == "" {
			t.Errorf("%q: %+v, %v", name, v, err)
		}
	}
}
