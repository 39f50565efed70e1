package once

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Program puts a program of this module at a path, built as releases are: without cgo, so that it also runs in pods. Test binaries that want the same program link it
// once: unlike `go build`, `go run` keeps what it has linked, and has `cp` copy it.
func Program(ctx context.Context, pkg, path string) error {
	run := exec.CommandContext(ctx, "go", "run", "-trimpath", "-exec", "cp", pkg, path)
	run.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", pkg, err, out)
	}
	return nil
}

// Rayctl is the program that most tests want.
const Rayctl = "github.com/rayctl/rayctl/cmd/rayctl"
