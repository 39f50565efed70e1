// Package measure runs rayctl and other tools alternately, and makes the rows of a table of what they took. Its own measures are those on this machine.
package measure

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/test/raytest"
)

// RayVersion is the Ray of all measures.
const RayVersion = raytest.Ray260

// Drivers are the programs that the measures run.
//
//go:embed drivers
var Drivers embed.FS

// Bench is the measures' environment.
type Bench struct {
	Rayctl string // absolute
	Base   string // an earlier rayctl, also absolute; may be empty
	Python string // of Ray's environment
	Dir    string // contains everything written
	Runs   int
	Head   sharedHead
	AtEnd  []func()           // cleanup of the measures, besides the head's
	Costs  map[string]float64 // of a run on the first number of nodes: more nodes must cost no more
}

// New installs Ray, where it is missing, and makes the directory of the measures.
func New(ctx context.Context, rayctl, base string, runs int) (b *Bench, err error) {
	b = &Bench{Runs: runs, Costs: map[string]float64{}}
	if b.Rayctl, err = program(rayctl); err != nil {
		return nil, fmt.Errorf("%w: build it (make build) or name it by -rayctl", err)
	}
	if base != "" {
		if b.Base, err = program(base); err != nil {
			return nil, fmt.Errorf("-base: %w", err)
		}
	}
	if b.Python, err = raytest.Install(ctx, RayVersion, b.Say); err != nil {
		return nil, err
	}
	b.Dir, err = os.MkdirTemp("", "rayctl-bench-")
	b.Head.say = b.Say
	return b, err
}

// program returns the absolute path of a file that is there.
func program(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	return path, err
}

// Close ends what the measures have left, and removes the directory.
func (b *Bench) Close() {
	for _, end := range b.AtEnd {
		end()
	}
	b.Head.Stop()
	_ = os.RemoveAll(b.Dir)
}

// Say prints a line of progress.
func (b *Bench) Say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// ray is Ray's command line.
func (b *Bench) ray() string { return filepath.Join(filepath.Dir(b.Python), "ray") }

// sharedHead is one running cluster for the measures that do not concern a cluster's life.
type sharedHead struct {
	*raytest.Head
	say func(string, ...any)
}

func (h *sharedHead) start(ctx context.Context) (err error) {
	if h.Head == nil {
		h.say("starting a Ray head")
		h.Head, err = raytest.Start(ctx, raytest.HeadOptions{Version: RayVersion}, h.say)
	}
	return err
}

func (h *sharedHead) Stop() {
	if h.Head != nil {
		h.Kill()
		h.Head = nil
	}
}

// cluster returns a client of the shared head, and starts it if necessary.
func (b *Bench) cluster(ctx context.Context) (*dashboardclient.Client, error) {
	if err := b.Head.start(ctx); err != nil {
		return nil, err
	}
	return dashboardclient.New(b.Head.Config())
}

// Environment is rayctl's environment: nothing of other rayctls or Rays, state and caches below dir.
func (b *Bench) Environment(more ...string) []string {
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "RAY") && name != "CI" {
			env = append(env, variable)
		}
	}
	for _, kind := range []string{"STATE", "CACHE", "CONFIG"} {
		env = append(env, "XDG_"+kind+"_HOME="+filepath.Join(b.Dir, strings.ToLower(kind)))
	}
	return append(env, more...)
}

// onHead is the environment in which rayctl reaches the shared head.
func (b *Bench) onHead() []string {
	return b.Environment("RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN_PATH="+b.Head.TokenFile)
}

// WorkingDir makes a directory with some drivers and new content, and so a new package.
func (b *Bench) WorkingDir(names ...string) (string, error) {
	dir, err := os.MkdirTemp(b.Dir, "work-")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		source, err := Drivers.ReadFile("drivers/" + name)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), source, 0o644); err != nil {
			return "", err
		}
	}
	return dir, os.WriteFile(filepath.Join(dir, "name"), []byte(dir), 0o644)
}

// Repeat measures the sides alternately.
func (b *Bench) Repeat(ctx context.Context, what string, sides ...func(context.Context) error) error {
	for run := range b.Runs {
		b.Say("%s: run %d of %d", what, run+1, b.Runs)
		for _, side := range sides {
			if err := side(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Machine describes the hardware that the figures depend on.
func Machine() string {
	return fmt.Sprintf("%s/%s with %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// LoadAverage is the average of the last minute.
func LoadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	load, _, ok := strings.Cut(string(text), " ")
	if !ok {
		return "unknown"
	}
	return load
}
