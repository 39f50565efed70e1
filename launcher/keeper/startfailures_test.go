package keeper_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

func TestStartFailures(t *testing.T) {
	t.Parallel()
	bare := filepath.Join(t.TempDir(), "python")                                                        // without any packages
	if err := os.WriteFile(bare, []byte("#!/bin/sh\nexec python3 -S -E \"$@\"\n"), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		shape func(*keeper.Orders)
		want  string
	}{
		"setup":  {func(o *keeper.Orders) { o.Ray.Setup = "echo fine; echo 'no scratch disk' >&2; false" }, "setup on node head-0 exited with code 1: no scratch disk"},
		"python": {func(o *keeper.Orders) { o.Ray.Python = "/nonexistent/python" }, "No such file or directory: '/nonexistent/python'"},
		"no Ray": {func(o *keeper.Orders) { o.Ray.Python = bare }, "ray start on node head-0 exited with code 1: ModuleNotFoundError: No module named 'ray'"},
		"long":   {func(o *keeper.Orders) { o.Ray.TempRoot = "/nonexistent/directory" }, "No such file or directory: '/nonexistent/directory"},
		"limit":  {func(o *keeper.Orders) { o.Lifetime.Start = 0.5 }, "Ray was not up within"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "true", c.shape).start(nil)
			s := r.result()
			if s.Exit.Cause != runstate.CauseStartFailed || s.Exit.Code != 73 || !strings.Contains(s.Exit.Message, c.want) {
				t.Errorf("exit: %+v, want %q", s.Exit, c.want)
			}
		})
	}
}
