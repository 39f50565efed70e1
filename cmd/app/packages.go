package app

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/rayctl/rayctl/cmd/app/sizes"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/clientfiles"
	"github.com/rayctl/rayctl/templates/workloads"
)

// Packages packs the job's directories and modules, and says what is sent. Without any it costs nothing.
func (a *App) Packages(j *spec.Job) func(context.Context) (*launcher.Packages, error) {
	return func(ctx context.Context) (*launcher.Packages, error) {
		p := a.NewPacker(j.Excludes)
		if err := p.addAll(ctx, j); err != nil {
			return nil, err
		}
		p.Tell("sent")
		a.sent = &p.Sent
		return p.Packages, nil
	}
}

// FromWorkingDir prepares requirements of a runtime environment that the nodes install from the working directory: the package must have their files. Ray keeps environments by the lines of
// the requirements, so that a comment with the package's name makes it install changed files.
func (p *Packer) FromWorkingDir(env map[string]any, dir, uri string) error {
	return clientfiles.EachList(env, func(_ string, lines []string) ([]string, error) {
		needed := map[string]string{}
		for _, line := range lines {
			if path, ok := clientfiles.Sent(line); ok {
				needed[path] = line
			}
		}
		for _, f := range p.Packages.Files {
			if f.URI != uri {
				continue
			}
			missing, err := pack.Missing(f.Path, slices.Sorted(maps.Keys(needed)))
			if err != nil {
				return nil, err
			}
			if len(missing) > 0 {
				return nil, launcher.Fail(runstate.CodeSpec, nil, "include it again in .gitignore, .rayignore or excludes (`--excludes '!PATTERN'`)",
					"the package of the working directory %s leaves out %s, which the requirement %q needs", dir, missing[0], needed[missing[0]])
			}
		}
		if len(needed) > 0 {
			lines = append(slices.Clone(lines), "# "+uri)
		}
		return lines, nil
	})
}

// WouldSend packs as Packages does, and so refuses what it refuses, but is for a job that is not sent; nil if it has no directory or module.
func (a *App) WouldSend(ctx context.Context, j *spec.Job) (*Sent, error) {
	p := a.NewPacker(j.Excludes)
	if err := p.addAll(ctx, j); err != nil || p.packed == 0 {
		return nil, err
	}
	p.Tell("would send")
	return &p.Sent, nil
}

// addAll adds what a job has.
func (p *Packer) addAll(ctx context.Context, j *spec.Job) error {
	p.Packages.RuntimeEnv = runtimeEnv(j)
	if j.WorkingDir != "" {
		if len(j.Excludes) > 0 && pack.IsArchive(j.WorkingDir) {
			p.a.UI.Warn("the working directory %s is a package already: nothing is excluded from it", j.WorkingDir)
		}
		uri, err := p.Add(ctx, "working directory", j.WorkingDir, pack.WorkingDir)
		if err != nil {
			return err
		}
		p.Packages.RuntimeEnv["working_dir"] = uri
		if err := p.FromWorkingDir(p.Packages.RuntimeEnv, j.WorkingDir, uri); err != nil {
			return err
		}
	}
	var modules []any
	for _, m := range j.PyModules {
		uri, err := p.Add(ctx, "Python module", m, pack.Module)
		if err != nil {
			return err
		}
		modules = append(modules, uri)
	}
	if modules != nil {
		p.Packages.RuntimeEnv["py_modules"] = modules
	}
	return nil
}

// runtimeEnv is the part of Ray's runtime_env that is neither packed nor a variable.
func runtimeEnv(j *spec.Job) map[string]any {
	env := map[string]any{}
	maps.Copy(env, j.RuntimeEnv)
	for _, k := range []string{"pip", "uv"} {
		if rich, ok := env[k].(map[string]any); ok { // FromWorkingDir changes it
			env[k] = maps.Clone(rich)
		}
	}
	if len(j.Pip.Packages) > 0 {
		env["pip"] = j.Pip.Packages
	}
	if len(j.Uv.Packages) > 0 {
		env["uv"] = j.Uv.Packages
	}
	return env
}

// Packer collects the packages of one job.
type Packer struct {
	a        *App
	Excludes []string
	Packages *launcher.Packages
	Sent     Sent
	packed   int // directories and modules so far
}

// ignoreGitignore is Ray's variable with which .gitignore files leave out nothing.
const ignoreGitignore = "RAY_RUNTIME_ENV_IGNORE_GITIGNORE"

// Tell says in one line what is sent and what is not.
func (p *Packer) Tell(verb string) {
	if p.packed == 0 {
		return
	}
	p.a.UI.Note("%s", verb+" "+p.Sent.String())
}

// NewPacker makes a packer that has packed nothing yet.
func (a *App) NewPacker(excludes []string) *Packer {
	return &Packer{a: a, Excludes: excludes, Packages: &launcher.Packages{}}
}

// PackFunc packs a directory, as pack.WorkingDir and pack.Module do.
type PackFunc func(ctx context.Context, path string, opts pack.Options) (*pack.Package, error)

// Add packs one directory or module and returns its URI; remote ones are returned unchanged.
func (p *Packer) Add(ctx context.Context, what, path string, do PackFunc) (string, error) {
	if pack.IsRemote(path) {
		return path, nil
	}
	cache, err := p.a.CacheDir("packages")
	if err != nil {
		return "", err
	}
	made, err := do(ctx, path, pack.Options{
		CacheDir: cache, Excludes: p.Excludes, NoGitignore: p.a.Getenv(ignoreGitignore) == "1", Logger: p.a.Logger(),
		Progress: func(n pack.Progress) {
			p.a.UI.Transfer(launcher.Progress{Text: "packing the " + what, Done: n.Bytes, Total: n.TotalBytes})
		},
	})
	var names *pack.NamesError
	switch {
	case errors.As(err, &names):
		return "", launcher.Fail(runstate.CodeStartFailed, err, "rename them, or exclude them with --excludes or a .rayignore", "Ray cannot unpack these names in the %s %s, as they have a backslash or are not in UTF-8: %s", what, path, names.List())
	case errors.Is(err, fs.ErrNotExist):
		return "", missing(what, path, err)
	case errors.Is(err, pack.ErrNotDirectory):
		return "", launcher.Fail(runstate.CodeSpec, err, "give the directory it is in, or a .zip file", "the %s %s is a file", what, path)
	case errors.Is(err, pack.ErrNotZip):
		return "", launcher.Fail(runstate.CodeSpec, err, "give a directory, or make it again with `zip -r`", "the %s %s is not a zip file that Ray can unpack", what, path)
	case err != nil:
		return "", err
	}
	for _, note := range made.Notes {
		p.a.UI.Note("%s", note)
	}
	p.packed++
	p.Sent.dirs = append(p.Sent.dirs, path)
	p.Sent.Files += made.Files
	p.Sent.Bytes += made.Bytes
	p.Sent.LeftOut = append(p.Sent.LeftOut, made.LeftOut...)
	p.Packages.Files = append(p.Packages.Files, launcher.PackageFile{URI: made.URI, Path: made.Path, Size: made.Size})
	return made.URI, nil
}

func missing(what, path string, err error) error {
	return launcher.Fail(runstate.CodeSpec, err, "paths are relative to the cluster file, those of flags to where you are", "the %s %s does not exist", what, path)
}

// CheckLaunched is CheckSent for a job on a cluster of its own, of which it is known what it can have.
func (a *App) CheckLaunched(s *spec.ClusterSpec) error {
	if here := spec.SubstrateOf(s.Launcher).Here; here != nil {
		if problems := here(s); len(problems) > 0 {
			return problems
		}
	}
	return a.checkSent(&s.Job, onlyHere(s))
}

// CheckSent refuses a job whose working directory, modules or script are not here, before anything is begun for it.
func (a *App) CheckSent(j *spec.Job) error { return a.checkSent(j, false) }

func (a *App) checkSent(j *spec.Job, onlyHere bool) error {
	if err := here("working directory", j.WorkingDir); err != nil {
		return err
	}
	for _, module := range j.PyModules {
		if err := here("Python module", module); err != nil {
			return err
		}
	}
	a.warnScript(j)
	return a.checkScript(j, onlyHere)
}

// CheckRun refuses a run whose command, files or sizes cannot be right, before anything is begun for it. It sets where the job begins. command: that of the command
// line, if it has one.
func (a *App) CheckRun(c *config.Loaded, command []string) error {
	if err := StartHere(&c.Spec.Job, c.Spec); err != nil {
		return err
	}
	if err := CheckProgram(command, &c.Spec.Job); err != nil {
		return err
	}
	if err := CheckCommand(c, command); err != nil {
		return err
	}
	if err := a.CheckLaunched(c.Spec); err != nil {
		return err
	}
	return CheckSizes(c.Spec)
}

// CheckSizes refuses a job that wants more nodes or GPUs than the cluster file has, or that breaks a rule of its template.
func CheckSizes(s *spec.ClusterSpec) error {
	if d := sizes.Check(s); d != nil {
		return launcher.Fail(runstate.CodeSpec, nil, "make them equal, or take them from RAYCTL_GPU_NODES and RAYCTL_GPUS_PER_NODE of the environment there", "%s", d)
	}
	return CheckTemplate(s)
}

// CheckTemplate refuses sizes that break a rule of the job's template. For a cluster whose jobs come later, fewer nodes than a job names may be intended.
func CheckTemplate(s *spec.ClusterSpec) error {
	return sizesError(sizes.CheckTemplate(s))
}

// CheckServed is CheckTemplate for a config of Serve from a file with this name, and for a cluster that was started with accepted. The template is that of job.
func CheckServed(job *spec.Job, accepted *spec.ClusterSpec, name string, config map[string]any) error {
	return sizesError(sizes.CheckServed(job, accepted, name, config))
}

func sizesError(broken *workloads.ValueError) error {
	if broken == nil {
		return nil
	}
	return launcher.Fail(runstate.CodeSpec, nil, broken.Hint, "%s", broken.Msg)
}

// here refuses what is to be packed and does not exist.
func here(what, path string) error {
	if path == "" || pack.IsRemote(path) {
		return nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return missing(what, path, err)
	}
	return nil
}

// Upload uploads the packages that the cluster does not have.
func (a *App) Upload(ctx context.Context, c *dashboardclient.Client, p *launcher.Packages) error {
	for _, f := range p.Files {
		_, err := c.UploadPackage(ctx, f.URI, f.Path, func(sent, total int64) {
			a.UI.Transfer(launcher.Progress{Text: "uploading the package", Done: sent, Total: total})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
