package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/launcher/spec"
)

// AddUp adds the flags of a command that makes a cluster without a job: those of AddSpec that mean something there.
func AddUp(fs *pflag.FlagSet) {
	AddSelection(fs)
	for _, f := range scalarFlags {
		if !ofJobOnly(f.key) {
			addString(fs, f.flag, "", f.usage)
		}
	}
	addSizes(fs)
	also := strings.Join(packagesKeys(), ", ")
	addString(fs, "requirements", "r", "`FILE` of packages that are kept installed for clusters of this machine (requirements.txt, pyproject.toml, uv.lock), in addition to "+also)
	addArray(fs, "pip", "", "`PACKAGE` that is kept installed for clusters of this machine, in addition to "+also)
	addWith(fs)
	addLabels(fs)
	addOtherFlags(fs)
	addAliases(fs)
}

// JobOfUp keeps of the job what applies to all jobs of the cluster.
func JobOfUp(s *spec.ClusterSpec) spec.Job {
	return spec.Job{Grace: s.Job.Grace, OutputDir: s.Job.OutputDir}
}

// ofJobOnly reports whether a key has no effect without a job: all of the section job but what JobOfUp keeps.
func ofJobOnly(key string) bool {
	return strings.HasPrefix(key, "job.") && key != "job.grace" && key != "job.outputDir"
}

// Ways to have in a cluster of `up` what a flag means for a job.
const (
	forEachJob = "give it to `rayctl submit`, or in the cluster file, where submit reads it"
	ofRuns     = "`rayctl run` has it, which starts a cluster for one job"
)

var upWays = map[string]string{
	"env":      "`--set env.NAME=VALUE` is a variable of everything on the cluster, `rayctl submit --env` one of a job",
	"env-file": "`--set env.NAME=VALUE` is a variable of everything on the cluster, `rayctl submit --env-file` has those of a job",
	"uv":       "`--pip` installs packages for the cluster, on this machine, `rayctl submit --uv` for a job",
	"prepare":  ofRuns, "each-node": ofRuns, "restarts": ofRuns, "share": ofRuns,
	"working-dir": forEachJob, "py-modules": forEachJob, "excludes": forEachJob, runtimeEnvFile: forEachJob, runtimeEnvJSON: forEachJob,
}

// UpWay is what to do instead of a flag for jobs that `up` does not have; "" for other flags.
func UpWay(flag string) string {
	if flag == "e" {
		flag = "env"
	}
	return upWays[cmp.Or(aliases[flag], flag)]
}

// checkUp refuses flags that have no effect on a cluster without a job. Files and variables may have those keys, because `submit` reads them, too.
func (d *Document) checkUp(s *spec.ClusterSpec, origins Origins) error {
	if !d.opts.Up {
		return nil
	}
	for _, flag := range slices.Sorted(maps.Keys(upWays)) {
		if f := lookup(d.opts.Flags, flag); f != nil && f.Changed {
			return noJob("--"+flag, upWays[flag])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(origins)) {
		if origins[key].Source == "--set" && ofJobOnly(key) {
			return noJob("--set "+key, forEachJob)
		}
	}
	return d.checkUpPackages(s)
}

func noJob(what, way string) error {
	return flagError(spec.Origin{Source: "`rayctl up`"}, way, "it starts no job, so that %s would have no effect", what)
}

// packageFlags are the flags of `up` for packages of the cluster.
var packageFlags = []string{"requirements", "pip", "with"}

// checkUpPackages refuses packages where rayctl makes no environment to install them in.
func (d *Document) checkUpPackages(s *spec.ClusterSpec) error {
	for _, flag := range packageFlags {
		f := lookup(d.opts.Flags, flag)
		if f == nil || !f.Changed {
			continue
		}
		in := spec.SubstrateOf(s.Launcher)
		switch {
		case in.PackagesKey == "":
			return flagError(spec.Origin{Source: "--" + flag}, "`rayctl submit --"+flag+"` has Ray install them for a job; for all jobs, "+in.Python+" has them",
				"the %s launcher installs no packages on the nodes", s.Launcher)
		case s.Ray.Python != "":
			return flagError(spec.Origin{Source: "--" + flag}, "install them there yourself, or leave ray.python out; `rayctl submit --"+flag+"` has Ray install them for a job",
				"rayctl installs packages only in environments that it makes, and not in that of ray.python (%s)", s.Ray.Python)
		}
	}
	return nil
}

// packagesKeys are the keys of the packages that launchers install for the nodes.
func packagesKeys() (keys []string) {
	for _, in := range spec.Substrates() {
		if in.PackagesKey != "" {
			keys = append(keys, in.PackagesKey)
		}
	}
	return keys
}

// addUpPackages puts the packages of flags beside those of packagesKeys. checkUpPackages refuses them where the launcher installs none.
func (l *loader) addUpPackages() error {
	for _, key := range packagesKeys() {
		if f := lookup(l.opts.Flags, "requirements"); f != nil && f.Changed {
			if err := l.doc.Append(key, "-r "+l.abs(f.Value.String()), spec.Origin{Source: "--requirements", Dir: l.dir}); err != nil {
				return err
			}
		}
		for _, flag := range []string{"pip", "with"} {
			if err := l.each(flag, l.addRequirement(key)); err != nil {
				return err
			}
		}
	}
	return nil
}
