package cmd

import (
	"context"
	"errors"
	"io/fs"
	"maps"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// packages packs the job's directories and modules. Without any it costs nothing.
func (a *App) packages(j *spec.Job) func(context.Context) (*launcher.Packages, error) {
	return func(ctx context.Context) (*launcher.Packages, error) {
		p := a.newPacker(j.Excludes)
		p.out.RuntimeEnv = runtimeEnv(j)
		if j.WorkingDir != "" {
			uri, err := p.add(ctx, "working directory", j.WorkingDir, pack.WorkingDir)
			if err != nil {
				return nil, err
			}
			p.out.RuntimeEnv["working_dir"] = uri
		}
		var modules []any
		for _, m := range j.PyModules {
			uri, err := p.add(ctx, "Python module", m, pack.Module)
			if err != nil {
				return nil, err
			}
			modules = append(modules, uri)
		}
		if modules != nil {
			p.out.RuntimeEnv["py_modules"] = modules
		}
		return p.out, nil
	}
}

// runtimeEnv is the part of Ray's runtime_env that is neither packed nor a variable.
func runtimeEnv(j *spec.Job) map[string]any {
	env := map[string]any{}
	maps.Copy(env, j.RuntimeEnv)
	if len(j.Pip.Packages) > 0 {
		env["pip"] = j.Pip.Packages
	}
	if len(j.Uv.Packages) > 0 {
		env["uv"] = j.Uv.Packages
	}
	return env
}

// packer collects the packages of one job.
type packer struct {
	a        *App
	excludes []string
	out      *launcher.Packages
}

func (a *App) newPacker(excludes []string) *packer {
	return &packer{a: a, excludes: excludes, out: &launcher.Packages{}}
}

type packFunc func(ctx context.Context, path string, opts pack.Options) (*pack.Package, error)

// add packs one directory or module and returns its URI; remote ones are returned unchanged.
func (p *packer) add(ctx context.Context, what, path string, do packFunc) (string, error) {
	if pack.IsRemote(path) {
		return path, nil
	}
	cache, err := p.a.cacheDir("packages")
	if err != nil {
		return "", err
	}
	made, err := do(ctx, path, pack.Options{CacheDir: cache, Excludes: p.excludes, Logger: p.a.logger(), Progress: func(n pack.Progress) {
		p.a.ui.transfer(launcher.Progress{Text: "packing the " + what, Done: n.Bytes, Total: n.TotalBytes})
	}})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", launcher.Fail(runstate.CodeSpec, err, "paths are relative to the cluster file, those of flags to where you are", "the %s %s does not exist", what, path)
	case errors.Is(err, pack.ErrNotDirectory):
		return "", launcher.Fail(runstate.CodeSpec, err, "give the directory it is in", "the %s %s is a file", what, path)
	case err != nil:
		return "", err
	}
	p.out.Files = append(p.out.Files, launcher.PackageFile{URI: made.URI, Path: made.Path, Size: made.Size})
	return made.URI, nil
}

// upload uploads the packages that the cluster does not have.
func (a *App) upload(ctx context.Context, c *dashboardclient.Client, p *launcher.Packages) error {
	for _, f := range p.Files {
		_, err := c.UploadPackage(ctx, f.URI, f.Path, func(sent, total int64) {
			a.ui.transfer(launcher.Progress{Text: "uploading the package", Done: sent, Total: total})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
