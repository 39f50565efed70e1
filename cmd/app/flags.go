package app

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher/spec"
)

// otherFlags are flags of other tools (docker, kubectl, Slurm, Ray) and the flags with that meaning here. A command names those that it has. What commands that make
// clusters accept is in config's aliases.
var otherFlags = map[string][]string{
	"gpus":       {"entrypoint-num-gpus"},
	"num-gpus":   {"entrypoint-num-gpus"},
	"gpu":        {"entrypoint-num-gpus"},
	"cpus":       {"entrypoint-num-cpus"},
	"num-cpus":   {"entrypoint-num-cpus"},
	"cpu":        {"entrypoint-num-cpus"},
	"memory":     {"entrypoint-memory"},
	"mem":        {"entrypoint-memory"},
	"nodes":      {"node"},
	"timeout":    {"max"},
	"deadline":   {"max"},
	"max-time":   {"max"},
	"ttl":        {"max", "idle"},
	"autostop":   {"idle"},
	"for":        {"max"},
	"until":      {"max"},
	"attempts":   {"restarts"},
	"retry":      {"restarts"},
	"list":       {"template"},
	"time":       {"max"},
	"time-limit": {"max"},
	"walltime":   {"max"},
	"junitxml":   {"junit"},
	"junit-xml":  {"junit"},
	"rm":         {"end-on-disconnect"},
	"dir":        {"working-dir"},
	"exclude":    {"excludes"},
	"py-module":  {"py-modules"},
	"workdir":    {"working-dir"},
	"lines":      {"tail"},
	"since":      {"tail"},
	"no-follow":  {"detach"},
	"no-wait":    {"detach"},
	"force":      {"now", "recreate"},
	"all":        {"older-than", "environments"},
	"records":    {"older-than"},
	"A":          {"others", "all"},
	"n":          {"name", "workers"},
	"p":          {"profile"},
	"w":          {"watch", "follow"},
	"F":          {"follow"},
	"name":       {"submission-id"},
	"job-name":   {"name", "submission-id"},
	"m":          {"memory-per-worker"},
	"N":          {"workers"},
}

// Ways without a flag that several of otherWays have.
const (
	elasticWay  = "a worker group of the cluster file has minReplicas and maxReplicas (`rayctl help elastic`), and `rayctl scale` changes them"
	secretWay   = "a command line is shown to other users of the machine: `secrets: [NAME]` in the cluster file takes NAME from your environment or a file"
	restartsWay = "`--set job.restarts.driver=N` starts the driver again if it failed, up to N times, and `--set job.restarts.nodeFailure=N` if a node was lost; a preempted run starts again without it"
	purgeWay    = "the record of what has ended is kept for lifetime.keep, and `rayctl gc --older-than 0` removes it now"
)

// otherWays are flags of other tools for which there is another command or no need.
var otherWays = map[string]string{
	"min-workers": elasticWay,
	"max-workers": elasticWay,
	"secret":      secretWay,
	"secrets":     secretWay,
	"secret-env":  secretWay,
	"purge":       purgeWay,
	"restarts":    restartsWay,
	"retries":     restartsWay,
	"max-retries": restartsWay,
	"timeout":     "`timeout 10m rayctl ...` ends it after 10 minutes with code 124",
	"headers":     "other users of the machine can read a command line: export RAY_JOB_HEADERS, in the format of `ray job`",
	"dry-run":     "`rayctl render` shows what a launch would create, `rayctl validate` checks the file",
	"wait":        "it waits unless --detach or --no-wait is given; `rayctl wait NAME` waits for the end of a run",
	"w":           "`rayctl status -w NAME` shows each change of one cluster",
	"watch":       "`rayctl status -w NAME` shows each change of one cluster",
}

// flagError names the right flag for one that the command does not have, or explains -- if the flag belongs to the user's command.
func (a *App) flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.Is(err, pflag.ErrHelp): // --help-all
		return err
	case errors.As(err, &invalid):
		if twice, ok := errors.AsType[*config.TwiceError](err); ok {
			return UsageError("one file describes a cluster; --profile NAME and --set KEY=VALUE change it", "--%s was given twice: %q and %q", invalid.GetFlag().Name, twice.First, twice.Second)
		}
		return UsageError("it is "+describedFlag(invalid.GetFlag()), "--%s: %q is not valid", invalid.GetFlag().Name, invalid.GetValue())
	case errors.As(err, &missing) && missing.GetFlag().Shorthand == "f" && c.Flags().Lookup("watch") != nil:
		return UsageError("-w follows, -f is "+describedFlag(missing.GetFlag()), "--%s needs a value", missing.GetFlag().Name)
	case errors.As(err, &missing):
		return UsageError("it is "+describedFlag(missing.GetFlag()), "--%s needs a value", missing.GetFlag().Name)
	case !errors.As(err, &unknown):
		return usage(c, err)
	}
	if first, ok := strayCommand(c); ok && !slices.Contains(a.args, "--") { // else the command is where it belongs, and the flag is wrong
		return a.afterDash(c, first)
	}
	dashed := unknownFlags(c, a.args)
	if len(dashed) < 2 { // cobra stops at the first
		name := unknown.GetSpecifiedName()
		dash := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dash = "-"
		}
		return UsageError(rightFlag(c, name), "`%s` has no flag %s", c.CommandPath(), dash+name)
	}
	var hints []string
	for _, flag := range dashed {
		hints = append(hints, "for "+flag+" "+rightFlag(c, strings.TrimLeft(flag, "-")))
	}
	return UsageError(strings.Join(hints, "; "), "`%s` has no flags %s", c.CommandPath(), strings.Join(dashed, ", "))
}

// unknownFlags are the flags of a command line that the command does not have, each once and without a value.
func unknownFlags(c *cobra.Command, args []string) (dashed []string) {
	for i, kind := range wordKinds(flagsOf(c), args) {
		flag, _, _ := strings.Cut(args[i], "=")
		if !strings.HasPrefix(flag, "--") {
			flag = flag[:min(len(flag), 2)]
		}
		if kind == unknownWord && !slices.Contains(dashed, flag) {
			dashed = append(dashed, flag)
		}
	}
	return dashed
}

// rightFlag is the next step for an unknown flag: those with its meaning, the way without a flag, the nearest name, or the help.
func rightFlag(c *cobra.Command, name string) string {
	if way := config.UpWay(name); c.Name() == "up" && way != "" {
		return "it starts no job: " + way
	}
	var found []string
	for _, other := range otherFlags[name] {
		if f := c.Flags().Lookup(other); f != nil {
			found = append(found, describedFlag(f))
		}
	}
	if len(found) > 0 {
		return "use " + strings.Join(found, " or ")
	}
	if way := wayOf(c, name); way != "" {
		return way
	}
	if way := otherWays[name]; way != "" {
		return way
	}
	if section, key := spec.OtherFlag(name); key != "" {
		return fmt.Sprintf("it is a key of the section %s of the cluster file, or `--set %s=VALUE`; `rayctl help %s` explains it", section, key, key)
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := spec.Nearest(name, names); near != "" && len(name) > 1 {
		return "did you mean " + describedFlag(c.Flags().Lookup(near)) + "?"
	}
	return "`" + c.CommandPath() + " --help` lists its flags"
}

// means reports whether a name is that of a flag, or stands for it in other tools.
func means(name, flag string) bool { return name == flag || slices.Contains(otherFlags[name], flag) }

// wayOf is the way without a flag that only this command has.
func wayOf(c *cobra.Command, name string) string {
	switch {
	case name == "all" && c.Flags().Lookup("node") != nil:
		return "`rayctl status NAME` lists the nodes, and --node chooses one"
	case name == "worker" && c.Flags().Lookup("node") != nil:
		return "use " + describedFlag(c.Flags().Lookup("node")) + "; `rayctl status NAME` lists the nodes"
	case name == "dry-run" && c.Name() == "down":
		return "`rayctl ls` lists the clusters that --all would end, `rayctl ls -l KEY=VALUE` those of -l"
	case c.Name() == "init" && hasCI(name):
		return ciWay
	case c.Name() == "submit" && means(name, "max"):
		return "a submitted job has no limit of its own: `rayctl submit -- timeout 20s python SCRIPT.py` ends it after 20 s with code 124, `rayctl run --max 20s` gives it a cluster of its own"
	case c.Name() == "submit" && (means(name, "restarts") || otherWays[name] == restartsWay):
		return "a submitted job runs once: `rayctl run --restarts N` starts a driver that failed again, on a cluster of its own"
	case c.Name() == "submit" && name == "output-dir":
		return "a submitted job has its cluster's output directory: `rayctl up --output-dir` names it, and `rayctl cp NAME: DIR` copies what is in it"
	case name == "junit" || name == "receipt":
		return "`rayctl wait NAME --" + name + " FILE` writes it for a run that has ended, too"
	case name == "all" && c.Name() == "stop":
		return "`rayctl jobs NAME` lists the jobs, and `rayctl stop NAME JOB...` takes several"
	case c.Name() == "scale" && slices.Contains([]string{"replicas", "workers", "nodes"}, name):
		return "write the sizes without a flag: `" + c.Root().Name() + " " + c.Use + "`"
	default:
		return ""
	}
}

func hasCI(name string) bool { _, ok := ciTemplates[name]; return ok }

// describedFlag is a flag as the help of its command has it: "--env NAME[=VALUE] (variable of the job's environment ...)".
func describedFlag(f *pflag.Flag) string {
	value, text := pflag.UnquoteUsage(f)
	if value != "" {
		value = " " + value
	}
	return "--" + f.Name + value + " (" + text + ")"
}

// Accept adds a hidden flag of other tools that asks for what the command does anyway.
func Accept(f *pflag.FlagSet, name, short, why string) {
	f.BoolP(name, short, false, "has no effect: "+why)
	f.Lookup(name).Hidden = true
}

// takesCommand reports whether a command runs a command of the user, which is written after --.
func takesCommand(c *cobra.Command) bool { return strings.Contains(c.Use, "-- COMMAND") }

// strayCommand is the first word of a user's command that was written without --. A first word that may be a cluster's name is one, unless it is a program.
func strayCommand(c *cobra.Command) (string, bool) {
	own := c.Flags().Args()
	if !takesCommand(c) || len(own) == 0 || c.ArgsLenAtDash() >= 0 {
		return "", false
	}
	if !takesCluster(c) || spec.CheckName(own[0]) != nil || isProgram(own[0]) {
		return own[0], true
	}
	if len(own) > 1 {
		return own[1], true
	}
	return "", false
}

// takesCluster reports whether an argument before -- is a cluster.
func takesCluster(c *cobra.Command) bool {
	return strings.Contains(c.Use, "[NAME]") || strings.Contains(c.Use, "[CLUSTER]")
}

// onNodes are programs that nodes have, and this machine perhaps not.
var onNodes = []string{"ray", "serve", "python", "python3", "pip", "nvidia-smi"}

func isProgram(word string) bool {
	_, err := exec.LookPath(word)
	return err == nil || slices.Contains(onNodes, word)
}

// afterDash is the error for a command that was written without --, with the whole command line as it should be.
func (a *App) afterDash(c *cobra.Command, first string) error {
	if IsYAMLFile(first) {
		return UsageError("did you mean `"+c.CommandPath()+" -f "+shellescape.Quote(first)+"`?", "%q is a file, not a command", first)
	}
	if err := fromScript(first); err != nil {
		return err
	}
	return UsageError(a.dashed(c, first), "Put the command after `--`")
}

// dashed is the command line with -- before the user's command, which begins with a word; flags that c has are rayctl's.
func (a *App) dashed(c *cobra.Command, first string) string {
	before, command := strings.Fields(c.CommandPath())[1:], []string{first}
	if i := slices.Index(a.args, first); i >= 0 {
		own, behind := a.args[i:], []string(nil)
		if n := slices.Index(own, "--"); n >= 0 {
			own, behind = own[:n], own[n+1:]
		}
		flags, others := splitWords(flagsOf(c), own)
		before, command = slices.Concat(a.args[:i], flags), slices.Concat(others, behind)
	}
	if line := splitLine(first); line != nil {
		command = append(line, command[1:]...)
	}
	if interpreter := interpreterOf(command[0]); interpreter != "" && CheckProgram(command, &spec.Job{}) != nil || strings.HasSuffix(command[0], ".py") {
		command = append([]string{interpreter}, command...)
	}
	return shellescape.QuoteCommand(slices.Concat([]string{c.Root().Name()}, before, []string{"--"}, command))
}
