package config

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/launcher/spec"
)

// scalarFlag is a flag that sets one key with a single value.
type scalarFlag struct{ flag, key, usage string }

var scalarFlags = []scalarFlag{
	{"name", "name", "exact `NAME` of the cluster"},
	{"image", "image", "container `IMAGE` of all nodes"},
	{"ray-version", "ray.version", "Ray `VERSION` that the cluster must run"},
	{"python", "ray.python", "Python or virtual environment `PATH` that has Ray on the nodes"},
	{"working-dir", "job.workingDir", "`DIR` that is packed and becomes the driver's current directory, or a .zip file or URI"},
	{"prepare", "job.prepare", "shell `COMMAND` that `run` runs before the driver, once on each cluster"},
	{"each-node", "job.launch.perNode", "run the command on every node, once, `N` times (=N), or for each GPU (=gpu)"},
	{"output-dir", "job.outputDir", "`DIR` for results on the nodes, given to the driver as RAYCTL_OUTPUT_DIR"},
	{"grace", "job.grace", "`TIME` between SIGTERM and SIGKILL for the driver"},
	{"queue-timeout", "lifetime.queue", "end the launch if the nodes are not granted within `TIME`"},
	{"max", "lifetime.max", "end the cluster `TIME` after its nodes are granted, the start of Ray included"},
	{"idle", "lifetime.idle", "end the cluster when it was idle for `TIME`"},
	{"keep", "lifetime.keep", "keep log and result for `TIME` after the end"},
	{"restarts", "job.restarts.driver", "start the driver again if it failed, up to `N` times"},
	{"share", "job.shareDir", "existing `DIR` on the nodes in which its group can read the run"},
}

// selectionFlags are the scalar flags of commands that only need to find clusters: --launcher, and what launchers register.
func selectionFlags() []scalarFlag {
	flags := []scalarFlag{{"launcher", "launcher", "`LAUNCHER` of the cluster: " + oneOf(Launchers()) + " (default: the file's section, else " + spec.Fallback() + ")"}}
	for _, s := range spec.Substrates() {
		for _, f := range s.Flags {
			flags = append(flags, scalarFlag{f.Name, f.Key, f.Usage})
		}
	}
	return flags
}

// FlagOf is the flag that sets a key of the cluster file, without its dashes; "" if it has none.
func FlagOf(key string) string {
	for _, f := range slices.Concat(scalarFlags, selectionFlags()) {
		if f.key == key {
			return f.flag
		}
	}
	for _, s := range spec.Substrates() {
		for flag, other := range s.OtherFlags {
			if other == key {
				return flag
			}
		}
	}
	return ""
}

// AddSelection adds the flags of every command that works on clusters: file, profile, substrate. It keeps flags and letters that are already defined.
func AddSelection(fs *pflag.FlagSet) {
	addString(fs, "file", "f", "cluster `FILE` (default: rayctl.yaml or rayctl.yml here or above)")
	if f := lookup(fs, "file"); f != nil {
		f.Value = &once{Value: f.Value}
	}
	addString(fs, "profile", "", "`NAME` of a profile of the file or of your configuration")
	for _, f := range selectionFlags() {
		addString(fs, f.flag, "", f.usage)
	}
	addArray(fs, "set", "", "set any key of the cluster file: `KEY=VALUE`, as in workers.trainer.replicas=2")
}

// SelectionFlags are the names of the flags of AddSelection.
func SelectionFlags() (names []string) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddSelection(fs)
	fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// GivenSelection is what of AddSelection a command line has: the name and the value of each flag, several times for a list.
func GivenSelection(fs *pflag.FlagSet) (given [][2]string) {
	for _, name := range SelectionFlags() {
		f := fs.Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			given = append(given, [2]string{name, value})
		}
	}
	return given
}

// AddSpec adds the flags of commands that make clusters, including those of AddSelection.
func AddSpec(fs *pflag.FlagSet) {
	AddSelection(fs)
	for _, f := range scalarFlags {
		addString(fs, f.flag, "", f.usage)
	}
	addSizes(fs)
	addEnv(fs)
	addPackages(fs)
	addLabels(fs)
	addOtherFlags(fs)
	addAliases(fs)
}

func addSizes(fs *pflag.FlagSet) {
	addArray(fs, "workers", "", "number of workers, of a group if there are several, MIN:MAX for an elastic one: `[GROUP=]N`")
	for _, bound := range []string{"min-workers", "max-workers"} {
		addArray(fs, bound, "", "the same as --workers MIN:MAX, one bound: `[GROUP=]N`")
		fs.Lookup(bound).Hidden = true
	}
	addArray(fs, "cpus-per-worker", "", "CPUs of each worker: `[GROUP=]N`")
	addArray(fs, "memory-per-worker", "", "memory of each worker, as in 16Gi: `[GROUP=]SIZE`")
	addArray(fs, "gpus-per-worker", "", "GPUs of each worker: `[GROUP=][TYPE:]N`")
}

func addLabels(fs *pflag.FlagSet) {
	addArray(fs, "label", "", "label of the cluster: `KEY=VALUE`")
	addArray(fs, "secret", "", "variable of the nodes with the value that `NAME` has on this machine, and in no record (secrets)")
}

// AddJob adds the flags of commands that run a job on an existing cluster.
func AddJob(fs *pflag.FlagSet) {
	AddSelection(fs)
	for _, f := range scalarFlags {
		if f.key == "job.workingDir" {
			addString(fs, f.flag, "", f.usage)
		}
	}
	addEnv(fs)
	addPackages(fs)
}

func addEnv(fs *pflag.FlagSet) {
	addArray(fs, "env", "e", "variable of the job's environment; without a value, it has the value of this machine: `NAME[=VALUE]`")
	addArray(fs, "env-file", "", "`FILE` of lines NAME=VALUE, as .env files are ($NAME is an earlier variable of the file, else the node's); --env has precedence")
}

// ours marks the flags of AddSelection, AddSpec and AddJob: a command's own --max or --name may have another meaning.
const ours = "rayctl-configuration"

func addString(fs *pflag.FlagSet, name, short, usage string) {
	if short != "" && fs.ShorthandLookup(short) != nil { // `logs -f` follows
		short = ""
	}
	if fs.Lookup(name) != nil {
		return // the command's own flag with another meaning
	}
	fs.StringP(name, short, "", usage)
	if name == "each-node" {
		fs.Lookup(name).NoOptDefVal = "1"
	}
	mark(fs, name)
}

// TwiceError is a flag for one value that was given two.
type TwiceError struct{ First, Second string }

func (e *TwiceError) Error() string { return fmt.Sprintf("given twice: %q and %q", e.First, e.Second) }

// once is a flag's value that refuses a second one: who gives two expects both to count.
type once struct {
	pflag.Value
	given bool
}

func (o *once) Set(text string) error {
	if o.given && text != o.String() {
		return &TwiceError{o.String(), text}
	}
	o.given = true
	return o.Value.Set(text)
}

func addArray(fs *pflag.FlagSet, name, short, usage string) {
	if fs.Lookup(name) != nil {
		return
	}
	fs.StringArrayP(name, short, nil, usage)
	mark(fs, name)
}

func mark(fs *pflag.FlagSet, name string) {
	f := fs.Lookup(name)
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[ours] = []string{}
}

// lookup finds a flag of this package; nil if the command does not have it or gives it another meaning.
func lookup(fs *pflag.FlagSet, name string) *pflag.Flag {
	f := fs.Lookup(name)
	if f == nil {
		return nil
	}
	if _, ok := f.Annotations[ours]; !ok {
		return nil
	}
	return f
}
