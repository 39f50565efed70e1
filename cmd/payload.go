package cmd

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// secrets reads the values of spec.Secrets from this machine; those of Kubernetes stay there.
func (a *App) secrets(s *spec.ClusterSpec) (map[string]string, error) {
	values := map[string]string{}
	for _, secret := range s.Secrets {
		switch {
		case secret.SecretKeyRef != nil:
		case secret.File != "":
			data, err := os.ReadFile(spec.ExpandHome(secret.File))
			if err != nil {
				return nil, fail(runstate.CodeConfig, err, "", "secret %s cannot be read: %v", secret.Name, err)
			}
			values[secret.Name] = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
		default:
			value := a.Getenv(secret.Name)
			if value == "" {
				return nil, fail(runstate.CodeConfig, nil, "export it, or give the secret a file", "secret %s is not set in your environment", secret.Name)
			}
			values[secret.Name] = value
		}
		if err := checkSecret(secret.Name, values); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// checkSecret refuses a value that cannot become an environment variable of the driver unchanged: it is sent as JSON and becomes a C string.
func checkSecret(name string, values map[string]string) error {
	value, here := values[name]
	why := ""
	switch {
	case !here:
	case strings.ContainsRune(value, 0):
		why = "it has a NUL byte"
	case !utf8.ValidString(value):
		why = "it is not UTF-8"
	}
	if why == "" {
		return nil
	}
	return fail(runstate.CodeConfig, nil, "encode it, as with base64, and decode it in the driver", "secret %s cannot be an environment variable: %s", name, why)
}

// packages packs the job's directories and modules. Without any it costs nothing.
func (a *App) packages(j *spec.Job) func(context.Context) (*launcher.Packages, error) {
	return func(ctx context.Context) (*launcher.Packages, error) {
		p := &packer{a: a, excludes: j.Excludes, out: &launcher.Packages{RuntimeEnv: runtimeEnv(j)}}
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
		return "", fail(runstate.CodeSpec, err, "paths are relative to the cluster file, those of flags to where you are", "the %s %s does not exist", what, path)
	case errors.Is(err, pack.ErrNotDirectory):
		return "", fail(runstate.CodeSpec, err, "give the directory it is in", "the %s %s is a file", what, path)
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
