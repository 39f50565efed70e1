package cmd

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// FuzzDocuments shows a run whose documents another user, or a keeper that lies, has written: `status` and `logs` end with an exit code, never by a panic,
// and write no control characters but those of the driver's own output.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte(`{}`), []byte("output\n"))
	f.Fuzz(func(t *testing.T, document, output []byte) {
		var st runstate.State
		err := json.Unmarshal(document, &st)
		ended := err == nil && st.Exit != nil && st.Phase.Ended()
		dir := filepath.Join(t.TempDir(), "told")
		name := keeper.StateFile
		if ended {
			name = keeper.ResultFile
		}
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, name), document, 0o600),
			os.WriteFile(filepath.Join(dir, keeper.DriverLog), output, 0o600), os.WriteFile(filepath.Join(dir, keeper.AttemptLog(1)), output, 0o600)); err != nil {
			t.Fatal(err)
		}
		commands := []string{"status DIR", "status DIR -v", "status DIR -o json", "status DIR -o yaml", "status DIR -o name", "logs DIR", "logs DIR --tail 1", "logs DIR --attempt 1"}
		if ended { // of another run these do not end
			commands = append(commands, "status DIR -w", "status DIR -w -o json", "status DIR -w -o yaml", "logs DIR -f", "logs DIR -f --tail 2", "logs DIR -f --attempt 1")
		}
		for _, command := range commands {
			checkShown(t, strings.Fields(strings.Replace(command, "DIR", dir, 1)), command)
		}
	})
}

// checkShown runs a command on a hostile run.
func checkShown(t *testing.T, args []string, command string) {
	t.Helper()
	a, out, stderr := apptest.New()
	code := a.Execute(t.Context(), NewRoot, args)
	if code < 0 || code > 255 || strings.Contains(stderr.String(), "rayctl has a bug") {
		t.Errorf("%s: code %d, stderr %q", command, code, stderr)
	}
	if text := stderr.String(); text != terminal.Clean(text) {
		t.Errorf("%s: stderr %q", command, text)
	}
	if args[0] == "logs" { // stdout is the driver's
		return
	}
	text := out.String()
	if text != terminal.Clean(text) {
		t.Errorf("%s: stdout %q", command, text)
	}
	if args[0] == "status" && !slices.Contains(args, "-w") && code != 0 && code != runstate.CodeSpec {
		t.Errorf("%s: code %d, stderr %q", command, code, stderr)
	}
	switch {
	case code != 0 || slices.Contains(args, "-w"):
	case strings.HasSuffix(command, "-o json") && !json.Valid([]byte(text)):
		t.Errorf("%s: no JSON: %q", command, text)
	case strings.HasSuffix(command, "-o name") && strings.Count(text, "\n") != 1:
		t.Errorf("%s: not one name: %q", command, text)
	}
}
