package config

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/launcher/spec"
)

// addPackages adds the flags for Python packages of a job.
func addPackages(fs *pflag.FlagSet) {
	addString(fs, "requirements", "r", "requirements `FILE` of packages that Ray installs for the job on every node (job.pip)")
	addArray(fs, "pip", "", "a `PACKAGE` that Ray installs for the job on every node, beside those of job.pip or job.uv")
	addArray(fs, "with", "", "the same as --pip, as in uv: `PACKAGE`")
	fs.Lookup("with").Hidden = true
}

// setPackages applies those flags. A requirements file takes the place of job.pip; single packages come beside what is there.
func (l *loader) setPackages(s *spec.ClusterSpec) error {
	if f := lookup(l.opts.Flags, "requirements"); f != nil && f.Changed {
		o := spec.Origin{Source: "--requirements", Dir: l.dir}
		if !s.Job.Uv.IsZero() {
			return flagError(o, "leave out one of them", "job.uv has packages already (%s)", l.out.Origins["job.uv"])
		}
		s.Job.Pip = spec.Requirements{File: l.abs(f.Value.String())}
		l.out.Origins["job.pip"] = o
	}
	for _, name := range []string{"pip", "with"} {
		f := lookup(l.opts.Flags, name)
		if f == nil || !f.Changed {
			continue
		}
		packages, err := l.opts.Flags.GetStringArray(name)
		if err != nil {
			return fmt.Errorf("read --%s: %w", name, err)
		}
		key, in := "job.pip", &s.Job.Pip
		if !s.Job.Uv.IsZero() {
			key, in = "job.uv", &s.Job.Uv
		}
		in.Packages = append(in.Packages, packages...)
		l.out.Origins[key] = spec.Origin{Source: "--" + name, Dir: l.dir}
	}
	return nil
}
