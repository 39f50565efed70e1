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
	addWith(fs)
	addArray(fs, "uv", "", "`PACKAGE` that Ray installs with uv for the job on every node, in addition to job.uv")
	addArray(fs, "py-modules", "", "`PATH` of a directory or package, or URI, that is uploaded and importable in the job, in addition to job.pyModules")
	addArray(fs, "excludes", "", "leave out of the working directory what matches `PATTERN` (as in .gitignore), in addition to job.excludes")
	addString(fs, runtimeEnvFile, "", "YAML `FILE` with a runtime_env of Ray; paths in it are relative to the current directory; other flags override it")
	addString(fs, runtimeEnvJSON, "", "runtime_env of Ray as `JSON`; other flags override it")
}

func addWith(fs *pflag.FlagSet) {
	addArray(fs, "with", "", "the same as --pip, the name that uv uses: `PACKAGE`")
	fs.Lookup("with").Hidden = true
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

// addPackages applies those flags. A requirements file takes the place of job.pip; single packages come beside what is there.
func (l *loader) addPackages() error {
	if l.opts.Up {
		return l.addUpPackages()
	}
	if f := lookup(l.opts.Flags, "requirements"); f != nil && f.Changed {
		o := spec.Origin{Source: "--requirements", Dir: l.dir}
		if l.doc.Filled("job.uv") {
			return flagError(o, "leave out one of them", "job.uv has packages already (%s)", l.doc.Origins()["job.uv"])
		}
		if err := l.doc.SetText("job.pip", l.abs(f.Value.String()), o); err != nil {
			return err
		}
	}
	pip := "job.pip"
	if l.doc.Filled("job.uv") {
		pip = "job.uv"
	}
	for _, x := range []struct{ flag, key string }{{"pip", pip}, {"with", pip}, {"uv", "job.uv"}, {"excludes", "job.excludes"}, {"py-modules", "job.pyModules"}} {
		add := func(text string, o spec.Origin) error { return l.doc.Append(x.key, text, o) }
		if x.key == "job.pip" || x.key == "job.uv" {
			add = l.addRequirement(x.key)
		}
		if err := l.each(x.flag, add); err != nil {
			return err
		}
	}
	return nil
}

// addRequirement appends a package, whose local path is relative to the current directory.
func (l *loader) addRequirement(key string) func(string, spec.Origin) error {
	return func(line string, o spec.Origin) error {
		if dir := l.doc.Origins()[key].Dir; l.doc.Filled(key) && dir != l.dir {
			line = clientfiles.Rebase(line, l.dir, dir)
		}
		return l.doc.Append(key, line, o)
	}
}
