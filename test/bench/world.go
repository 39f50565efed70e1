package main

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

const rayVersion = raytest.Ray260

//go:embed drivers
var drivers embed.FS

// bench is the measures' environment.
type bench struct {
	rayctl string // absolute
	base   string // an earlier rayctl, also absolute; may be empty
	python string // of Ray's environment
	dir    string // contains everything written
	runs   int
	head   sharedHead
	atEnd  []func()           // cleanup of the measures, besides the head's
	costs  map[string]float64 // of a run on the first number of nodes: more nodes must cost no more
}

func newBench(ctx context.Context, rayctl, base string, runs int) (b *bench, err error) {
	b = &bench{runs: runs, costs: map[string]float64{}}
	if b.rayctl, err = program(rayctl); err != nil {
		return nil, fmt.Errorf("%w: build it (make build) or name it by -rayctl", err)
	}
	if base != "" {
		if b.base, err = program(base); err != nil {
			return nil, fmt.Errorf("-base: %w", err)
		}
	}
	if b.python, err = raytest.Install(ctx, rayVersion, b.say); err != nil {
		return nil, err
	}
	b.dir, err = os.MkdirTemp("", "rayctl-bench-")
	b.head.say = b.say
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

func (b *bench) close() {
	for _, end := range b.atEnd {
		end()
	}
	b.head.stop()
	_ = os.RemoveAll(b.dir)
}

// say prints progress.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// ray is Ray's command line.
func (b *bench) ray() string { return filepath.Join(filepath.Dir(b.python), "ray") }

// sharedHead is one running cluster for the measures that do not concern a cluster's life.
type sharedHead struct {
	*raytest.Head
	say func(string, ...any)
}

func (h *sharedHead) start(ctx context.Context) (err error) {
	if h.Head == nil {
		h.say("starting a Ray head")
		h.Head, err = raytest.Start(ctx, raytest.HeadOptions{Version: rayVersion}, h.say)
	}
	return err
}

func (h *sharedHead) stop() {
	if h.Head != nil {
		h.Kill()
		h.Head = nil
	}
}

// cluster returns a client of the shared head, and starts it if necessary.
func (b *bench) cluster(ctx context.Context) (*dashboardclient.Client, error) {
	if err := b.head.start(ctx); err != nil {
		return nil, err
	}
	return dashboardclient.New(b.head.Config())
}

// environment is rayctl's environment: nothing of other rayctls or Rays, state and caches below dir.
func (b *bench) environment(more ...string) []string {
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "RAY") && name != "CI" {
			env = append(env, variable)
		}
	}
	for _, kind := range []string{"STATE", "CACHE", "CONFIG"} {
		env = append(env, "XDG_"+kind+"_HOME="+filepath.Join(b.dir, strings.ToLower(kind)))
	}
	return append(env, more...)
}

// onHead is the environment in which rayctl reaches the shared head.
func (b *bench) onHead() []string {
	return b.environment("RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN_PATH="+b.head.TokenFile)
}

// workingDir makes a directory with some drivers and new content, and so a new package.
func (b *bench) workingDir(names ...string) (string, error) {
	dir, err := os.MkdirTemp(b.dir, "work-")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		source, err := drivers.ReadFile("drivers/" + name)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), source, 0o644); err != nil {
			return "", err
		}
	}
	return dir, os.WriteFile(filepath.Join(dir, "name"), []byte(dir), 0o644)
}

// repeat measures the sides alternately.
func (b *bench) repeat(ctx context.Context, what string, sides ...func(context.Context) error) error {
	for run := range b.runs {
		b.say("%s: run %d of %d", what, run+1, b.runs)
		for _, side := range sides {
			if err := side(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// machine describes the hardware that the figures depend on.
func machine() string {
	return fmt.Sprintf("%s/%s with %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// loadAverage is the average of the last minute.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	load, _, ok := strings.Cut(string(text), " ")
	if !ok {
		return "unknown"
	}
	return load
}
