package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rayctl/rayctl/test/once"
)

// Module is one upstream Go module at one version and its build outputs. It is built in a writable copy as the main
// module, apart from the product's go.mod.
type Module struct {
	// Name of the directory in the cache, before "-VERSION".
	Name string
	// Path and Version of the module.
	Path, Version string
	// Programs maps a program's name to its package.
	Programs map[string]string
	// Files maps a file or directory of the module to its name in share/.
	Files map[string]string
	// Staged is the version of modules that the repository keeps beside the module (relative replaces in its go.mod,
	// which the published module does not contain). Without one the version in go.mod is required.
	Staged func(path string) string
	// Flags for the linker, e.g. "-X package.variable=value".
	Flags string
	// Patch changes the copy before the build; Patched names it in the cache.
	Patch   func(dir string) error
	Patched string
}

// Built is a module that has been built.
type Built struct{ dir string }

// Program is the path of a program.
func (b Built) Program(name string) string { return filepath.Join(b.dir, "bin", name) }

// Share is the path of one of Module.Files.
func (b Built) Share(name string) string { return filepath.Join(b.dir, "share", name) }

// Build builds the module, or finds it in the cache.
func (m Module) Build(ctx context.Context) (Built, error) {
	name := m.Name + "-" + m.Version
	if m.Patched != "" {
		name += "-" + m.Patched
	}
	dir, err := Once(ctx, name, m.fill)
	return Built{dir}, err
}

func (m Module) fill(ctx context.Context, tmp string) error {
	src := filepath.Join(tmp, "src")
	if err := m.copySource(ctx, src); err != nil {
		return err
	}
	if err := m.stage(ctx, src); err != nil {
		return err
	}
	if m.Patch != nil {
		if err := m.Patch(src); err != nil {
			return fmt.Errorf("patching %s: %w", m.Path, err)
		}
	}
	for program, pkg := range m.Programs {
		flags := strings.TrimSpace("-s -w " + m.Flags)
		if err := run(goCommand(ctx, src, "build", "-p", "2", "-trimpath", "-ldflags", flags,
			"-o", filepath.Join(tmp, "bin", program), pkg)); err != nil {
			return err
		}
	}
	for from, to := range m.Files {
		if err := copyTree(filepath.Join(tmp, "share", to), filepath.Join(src, from)); err != nil {
			return err
		}
	}
	return once.RemoveAll(src)
}

func (m Module) copySource(ctx context.Context, src string) error {
	cmd := goCommand(ctx, filepath.Dir(src), "mod", "download", "-json", m.Path+"@"+m.Version)
	out, runErr := cmd.Output()
	var answer struct{ Dir, Error string }
	if err := json.Unmarshal(out, &answer); err != nil {
		return fmt.Errorf("downloading %s@%s: %w", m.Path, m.Version, errors.Join(runErr, err))
	}
	if answer.Error != "" || runErr != nil {
		return fmt.Errorf("downloading %s@%s: %s (%w)", m.Path, m.Version, answer.Error, runErr)
	}
	return copyTree(src, answer.Dir)
}

// stage replaces the module's relative replaces by published modules.
func (m Module) stage(ctx context.Context, src string) error {
	out, err := goCommand(ctx, src, "mod", "edit", "-json").Output()
	if err != nil {
		return fmt.Errorf("reading the go.mod of %s: %w", m.Path, err)
	}
	var mod struct {
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return fmt.Errorf("reading the go.mod of %s: %w", m.Path, err)
	}
	args := []string{"mod", "edit"}
	for _, r := range mod.Replace {
		if !strings.HasPrefix(r.New.Path, ".") {
			continue
		}
		if m.Staged == nil {
			args = append(args, "-dropreplace="+r.Old.Path)
			continue
		}
		args = append(args, fmt.Sprintf("-replace=%s=%s@%s", r.Old.Path, r.Old.Path, m.Staged(r.Old.Path)))
	}
	if len(args) == 2 {
		return nil
	}
	return run(goCommand(ctx, src, args...))
}

// goCommand runs go in dir at the lowest priority: a build must not disturb measurements beside it.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", "19", "go"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0", "GOMAXPROCS=2")
	return cmd
}
