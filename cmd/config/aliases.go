package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/launcher/spec"
)

// aliases are what other tools call flags of commands that make clusters. They are accepted, and no help lists them.
var aliases = map[string]string{
	"timeout": "max", "time-limit": "max", "time": "max", "walltime": "max",
	"cpus": "cpus-per-worker", "num-cpus": "cpus-per-worker", "cpu": "cpus-per-worker",
	"gpus": "gpus-per-worker", "num-gpus": "gpus-per-worker", "gpu": "gpus-per-worker",
	"memory": "memory-per-worker", "mem": "memory-per-worker",
	"nodes": "workers", "num-nodes": "workers", "num-workers": "workers", "replicas": "workers",
	"retries": "restarts", "max-retries": "restarts", "secrets": "secret", "secret-env": "secret", "share-dir": "share",
}

// addAliases makes a command accept the aliases of flags that it has.
func addAliases(fs *pflag.FlagSet) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if to := aliases[name]; to != "" {
			name = to
		}
		return pflag.NormalizedName(name)
	})
}

// addOtherFlags adds the flags of substrates' own tools that set a key of their section, such as --partition. No help lists them.
func addOtherFlags(fs *pflag.FlagSet) {
	for _, s := range spec.Substrates() {
		for _, flag := range slices.Sorted(maps.Keys(s.OtherFlags)) {
			addString(fs, flag, "", "`VALUE` of "+s.OtherFlags[flag])
			fs.Lookup(flag).Hidden = true
		}
	}
}

// checkOtherFlags refuses flags of another launcher than the one in force, which would ignore them. Commands that only find clusters take --namespace and the like
// for clusters that the file does not describe, and one of several sites ignores those of another.
func (d *Document) checkOtherFlags(launcher string, oneOfSites bool) error {
	for _, other := range spec.Substrates() {
		if other.Name == launcher {
			continue
		}
		flags := slices.Sorted(maps.Keys(other.OtherFlags))
		if lookup(d.opts.Flags, "name") != nil && !oneOfSites { // a command that makes clusters
			for _, f := range other.Flags {
				flags = append(flags, f.Name)
			}
		}
		for _, flag := range flags {
			if f := lookup(d.opts.Flags, flag); f != nil && f.Changed {
				return flagError(spec.Origin{Source: "--" + flag}, "add --launcher "+other.Name+", or leave it out", "it is for %s, and the launcher here is %s", other.Title, launcher)
			}
		}
	}
	return nil
}

// setBound sets the smallest or largest number of workers of a group.
func (l *loader) setBound(key string) func(string, spec.Origin) error {
	return func(text string, o spec.Origin) error {
		group, n, named := cutGroup(text)
		group, err := l.groupOf(group, named, o)
		if err != nil {
			return err
		}
		return l.doc.Set("workers."+group+"."+key, n, o)
	}
}

// addSecrets adds the secrets of flags: only their names, because other users of the machine can read a command line.
func (l *loader) addSecrets() error {
	return l.each("secret", func(name string, o spec.Origin) error {
		if _, _, pair := cutGroup(name); pair {
			return flagError(o, "give its NAME alone: the value is taken from your environment", "a command line is shown to other users of the machine")
		}
		if _, has := l.doc.Origins()["secrets."+name]; has {
			return nil
		}
		return l.doc.Append("secrets", name, o)
	})
}

// rangeHint is how to write an elastic group's size.
func rangeHint(least, most string) string {
	return fmt.Sprintf("write MIN:MAX, as in --workers %s:%s", least, most)
}
