package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestSecretContent: a value that no variable can hold is refused, and the error names the secret without its value.
func TestSecretContent(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"NUL": "hush\x00hush", "LATIN1": "hush\xe9"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadSecrets(&spec.ClusterSpec{Secrets: []spec.Secret{{Name: name, File: filepath.Join(dir, name)}}}, os.Getenv)
		if launcher.ExitCode(err) != runstate.CodeConfig || !strings.Contains(err.Error(), "secret "+name) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	latin1 := func(string) string { return "hush\xe9" }
	if _, err := ReadSecrets(&spec.ClusterSpec{Secrets: []spec.Secret{{Name: "VARIABLE"}}}, latin1); launcher.ExitCode(err) != runstate.CodeConfig || strings.Contains(err.Error(), "hush") {
		t.Errorf("a variable: %v", err)
	}
}
