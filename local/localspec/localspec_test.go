package localspec_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
	_ "github.com/rayctl/rayctl/local/localspec"
)

func mustDecode(t *testing.T, text string) *spec.ClusterSpec {
	t.Helper()
	s, err := spec.Decode(strings.NewReader(text), "rayctl.yaml")
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return s
}

func TestValidate(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"packages", "launcher: local\nray: {python: /v}\nlocal: {packages: [jax]}", "rayctl installs packages only in environments that it makes"},
		{"package option", "local: {packages: [--index-url=x]}", "is not a package"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := spec.Validate(mustDecode(t, c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}
