package config

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/clientfiles"
)

// addPackages adds the flags for Python packages of a job.
func addPackages(fs *pflag.FlagSet) {
	addString(fs, "requirements", "r", "`FILE` of packages for the job (requirements.txt; on this machine also pyproject.toml, uv.lock): `run` on this machine keeps them installed, elsewhere Ray installs them (job.pip)")
	addArray(fs, "pip", "", "`PACKAGE` for the job, in addition to job.pip or job.uv")
	addArray(fs, "with", "", "the same as --pip, the name that uv uses: `PACKAGE`")
	fs.Lookup("with").Hidden = true
	addArray(fs, "uv", "", "`PACKAGE` that Ray installs with uv for the job on every node, in addition to job.uv")
	addArray(fs, "py-modules", "", "`PATH` of a directory or package, or URI, that is uploaded and importable in the job, in addition to job.pyModules")
	addArray(fs, "excludes", "", "leave out of the working directory what matches `PATTERN` (as in .gitignore), in addition to job.excludes")
	addString(fs, runtimeEnvFile, "", "YAML `FILE` with a runtime_env of Ray; paths in it are relative to the current directory; other flags override it")
	addString(fs, runtimeEnvJSON, "", "runtime_env of Ray as `JSON`; other flags override it")
}

// The flags that take a whole runtime_env, as those of `ray job submit`.
const (
	runtimeEnvFile = "runtime-env"
	runtimeEnvJSON = "runtime-env-json"
)

// mergeRuntimeEnv merges the runtime_env of a flag over the files. As for `ray job submit`, its paths are relative to the current directory.
func (l *loader) mergeRuntimeEnv() error {
	file, text := lookup(l.opts.Flags, runtimeEnvFile), lookup(l.opts.Flags, runtimeEnvJSON)
	var source string
	var in io.Reader
	switch {
	case file != nil && file.Changed && text.Changed:
		return flagError(spec.Origin{Source: "--" + runtimeEnvJSON}, "leave out one of them", "--%s is given, too", runtimeEnvFile)
	case file != nil && file.Changed:
		data, err := os.ReadFile(l.abs(file.Value.String()))
		if err != nil {
			return flagError(spec.Origin{Source: "--" + runtimeEnvFile}, "give a YAML file with a runtime_env", "%s cannot be read: %s", file.Value, cause(err))
		}
		source, in = file.Value.String(), bytes.NewReader(data)
	case text != nil && text.Changed && !json.Valid([]byte(text.Value.String())):
		return flagError(spec.Origin{Source: "--" + runtimeEnvJSON}, `write it like {"env_vars": {"SEED": "1"}}`, "%q is not JSON", text.Value)
	case text != nil && text.Changed:
		source, in = "--"+runtimeEnvJSON, strings.NewReader(text.Value.String())
	default:
		return nil
	}
	env, err := spec.ParseRuntimeEnv(in, source)
	if err != nil {
		return err
	}
	env.SetDir(l.dir)
	l.doc.MergeRuntimeEnv(env)
	return nil
}

// setPackages applies those flags. A requirements file takes the place of job.pip; single packages come beside what is there.
func (l *loader) setPackages(s *spec.ClusterSpec) error {
	if f := lookup(l.opts.Flags, "requirements"); f != nil && f.Changed {
		o := spec.Origin{Source: "--requirements", Dir: l.dir}
		if !s.Job.Uv.IsZero() {
			return flagError(o, "leave out one of them", "job.uv has packages already (%s)", l.out.Origins["job.uv"])
		}
		s.Job.Pip = spec.Requirements{File: l.abs(f.Value.String()), Dir: l.dir}
		l.out.Origins["job.pip"] = o
	}
	for _, name := range []string{"pip", "with"} {
		key, in := "job.pip", &s.Job.Pip
		if !s.Job.Uv.IsZero() {
			key, in = "job.uv", &s.Job.Uv
		}
		l.addRequirements(name, key, in)
	}
	l.addRequirements("uv", "job.uv", &s.Job.Uv)
	l.add("excludes", "job.excludes", &s.Job.Excludes, nil)
	l.add("py-modules", "job.pyModules", &s.Job.PyModules, func(path string) string { return spec.OnClient(path, l.dir) })
	return nil
}

// addRequirements appends packages, whose local paths are relative to the current directory.
func (l *loader) addRequirements(flag, key string, in *spec.Requirements) {
	l.add(flag, key, &in.Packages, func(line string) string {
		if in.IsZero() {
			in.Dir = l.dir
		}
		if in.Dir == l.dir {
			return line
		}
		return clientfiles.Rebase(line, l.dir, in.Dir)
	})
}

// add appends the values of a flag to a list of the job, each changed by change, which may be nil.
func (l *loader) add(flag, key string, in *[]string, change func(string) string) {
	f := lookup(l.opts.Flags, flag)
	if f == nil || !f.Changed {
		return
	}
	for _, value := range f.Value.(pflag.SliceValue).GetSlice() { // as addArray makes it
		if change != nil {
			value = change(value)
		}
		*in = append(*in, value)
	}
	l.out.Origins[key] = spec.Origin{Source: "--" + flag, Dir: l.dir}
}
