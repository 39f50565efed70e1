package measure

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// measureInstall installs Ray's default environment from empty caches: pip into a new virtual environment, rayctl as a part of a first `rayctl run`. Then rayctl runs the
// same again, with one more package, and the same once more.
func measureInstall(ctx context.Context, b *Bench) ([]Row, error) {
	var pip, first, more, again []float64
	add := func(to *[]float64, d *Done, err error) error {
		if err == nil {
			*to = append(*to, d.wall)
		}
		return err
	}
	home := ""
	run := func(ctx context.Context, to *[]float64, flags ...string) error {
		args := append(append([]string{"run", "--quiet"}, flags...), "--", "python", "-c", "print(1)")
		d, err := b.Command(ctx, homeless(home), b.Rayctl, args...)
		return add(to, d, err)
	}
	err := b.Repeat(ctx, "install", func(context.Context) (err error) {
		home, err = os.MkdirTemp(b.Dir, "home-")
		return err
	}, func(ctx context.Context) error {
		venv := filepath.Join(home, "venv")
		d, err := b.Command(ctx, homeless(home), "sh", "-c", `python3 -m venv "$1" && "$1/bin/pip" install --quiet --no-cache-dir "ray[default]==$2"`, "sh", venv, RayVersion)
		return add(&pip, d, err)
	}, func(ctx context.Context) error {
		return run(ctx, &first)
	}, func(ctx context.Context) error {
		return run(ctx, &more, "--set", "local.packages=[iniconfig]")
	}, func(ctx context.Context) error {
		return run(ctx, &again)
	}, func(context.Context) error {
		return os.RemoveAll(home)
	})
	if err != nil {
		return nil, err
	}
	half := 0.5 * Median(pip)
	return []Row{
		Compare("first `rayctl run -- python -c 'print(1)'` with empty caches (a new venv, `pip install ray[default]`; no Ray is started)", Seconds, pip, first, half,
			"at most half of it: "+Seconds(half)),
		Compare("the same with one package more (the same run again, with neither)", Seconds, again, more, Median(again)+3, "at most 3 s more: "+Seconds(Median(again)+3)),
	}, nil
}

// homeless is the environment without the caches of this user.
func homeless(home string) []string {
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "XDG_") || name == "HOME" || name == "UV_CACHE_DIR" || name == "PIP_CACHE_DIR"
	})
	return append(env, "HOME="+home)
}
