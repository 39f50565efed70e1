package slurm

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

// SubmitOffer submits companion jobs for a keeper that may not call sbatch on its node. The keeper offers the arguments of sbatch, and clients submit them.
func (l *Launcher) SubmitOffer(ctx context.Context, id launcher.ID, o keeper.Offer) (submitted, refusal string, err error) {
	c, err := l.running(ctx, id)
	if err != nil {
		return "", "", err
	}
	if err := c.expects(o.Argv); err != nil {
		return "", "", err
	}
	b, err := c.offered(ctx, o.Argv)
	if err != nil {
		return "", "", err
	}
	job, err := l.site.Submit(ctx, b)
	var refused *controller.CommandError
	switch {
	case err == nil:
		return strconv.Itoa(job), "", nil
	case launcher.ExitCode(err) == runstate.CodeSpec: // slurmrestd has no field for an option of the group
		return "", err.Error(), nil
	case controller.Away(err) || !errors.As(err, &refused):
		return "", "", l.site.Unreachable(err)
	default:
		return "", err.Error(), nil
	}
}

// offered returns the batch job for the arguments of an offer, which expects has accepted. slurmrestd cannot read files of the site, so it gets the script's text.
func (c *cluster) offered(ctx context.Context, argv []string) (controller.Batch, error) {
	b := controller.Batch{Argv: argv}
	if _, commands := c.l.site.Controller.(controller.Commands); commands {
		return b, nil
	}
	file := argv[slices.IndexFunc(argv, isScript)]
	found, err := c.l.site.Runs.Files.Read(ctx, file)
	if err != nil {
		return b, c.l.site.Runs.Unreachable(err)
	}
	b.Plan, b.Environment, b.Text = c.l.site.Fitted(ctx, script.PlanOf(c.run, 0)), c.l.site.Runs.Environment(), string(found[file].Data)
	if b.Text == "" {
		return b, launcher.Fail(runstate.CodeUnreachable, nil, "end the cluster: `rayctl down "+c.run.Name+"`", "%s cannot get more nodes: its batch script %s does not exist", c.run.Name, file)
	}
	return b, nil
}

// isScript reports whether an argument of sbatch is no option.
func isScript(argument string) bool { return !strings.HasPrefix(argument, "-") }

// CancelOffered cancels companion jobs that a client submitted while the cluster was ending.
func (l *Launcher) CancelOffered(ctx context.Context, _ launcher.ID, job string) error {
	id, err := strconv.Atoi(job)
	if err != nil {
		return err
	}
	return l.site.Cancel(ctx, id, false)
}

// options are the options of sbatch that a keeper's offer may have, each with a pattern for its value (submission.py and drains.py of
// keeper/rayctl_keeper/slurm/companions).
var options = map[string]*regexp.Regexp{
	"--open-mode":  regexp.MustCompile(`^append$`),
	"--no-requeue": regexp.MustCompile(`^$`),
	"--comment":    regexp.MustCompile(`^rayctl nodes? [a-z0-9 .-]+$`),
	"--array":      regexp.MustCompile(`^[0-9]+(,[0-9]+)*$`),
	"--time":       regexp.MustCompile(`^[0-9]+$`),
	"--signal":     regexp.MustCompile(`^B:USR1@[0-9]+(\.[0-9]+)?$`),
}

// gangOptions are the options that the offer of an early head's gang may have; the gang's script has all others.
var gangOptions = map[string]*regexp.Regexp{"--open-mode": options["--open-mode"], "--no-requeue": options["--no-requeue"]}

// expects refuses arguments that no keeper of this cluster would offer: a process that answers in the keeper's place must not make the client submit another job.
func (c *cluster) expects(argv []string) error {
	groups := map[string]string{}
	for _, g := range c.run.Record.Spec.NodeGroups() {
		groups[c.run.Path(script.CompanionFile(g.Name))] = g.Name
	}
	if c.run.Record.Spec.Head.Early {
		groups[c.run.Path(script.GangFile)] = keeper.Gang
	}
	if isOffer(argv, script.CompanionName(c.run.Record.Spec, c.run.Record.Nonce), c.run.Path(""), groups) {
		return nil
	}
	return launcher.Fail(runstate.CodeInternal, nil, "end the cluster: `rayctl down "+c.run.Name+"`", "%s requests a job that is not for one of its nodes: %q", c.run.Name, argv)
}

// isOffer reports whether sbatch with these arguments submits jobs with this name for nodes of the cluster with this directory. groups has the worker group of each
// companion script.
func isOffer(argv []string, name, dir string, groups map[string]string) bool {
	first := slices.IndexFunc(argv, isScript)
	if first < 0 || first+1 >= len(argv) {
		return false
	}
	group, place, nodes := groups[argv[first]], argv[first+1], argv[first+2:]
	attempt, inside := strings.CutPrefix(place, strings.TrimSuffix(dir, "/"))
	if group == "" || !inside || !attemptDir.MatchString(attempt) || !areNodes(nodes, group) {
		return false
	}
	exact := []string{"--job-name=" + name, "--chdir=" + place}
	output, file, options := "--output="+strings.ReplaceAll(place, "%", "%%")+"/nodes/"+group, outputFile, options
	if group == keeper.Gang {
		file, options = gangOutput, gangOptions
	}
	for _, want := range exact {
		if !slices.Contains(argv[:first], want) {
			return false
		}
	}
	for _, a := range argv[:first] {
		option, value, _ := strings.Cut(a, "=")
		switch known := options[option]; {
		case slices.Contains(exact, a):
		case known != nil && known.MatchString(value):
		case strings.HasPrefix(a, output) && file.MatchString(strings.TrimPrefix(a, output)):
		default:
			return false
		}
	}
	return true
}

var (
	attemptDir = regexp.MustCompile(`^(/[0-9]+)?$`) // below the run's directory
	outputFile = regexp.MustCompile(`^-([0-9]+|%a)/companion\.[0-9]+\.out$`)
	gangOutput = regexp.MustCompile(`^/companion\.[0-9]+\.out$`)
	number     = regexp.MustCompile(`^[0-9]+$`)
)

// areNodes reports whether the arguments are names of nodes of a group, each followed by its serial, or the gang.
func areNodes(arguments []string, group string) bool {
	if group == keeper.Gang {
		return len(arguments) == 2 && arguments[0] == group && number.MatchString(arguments[1])
	}
	for i := 0; i+1 < len(arguments); i += 2 {
		ordinal, is := strings.CutPrefix(arguments[i], group+"-")
		if !is || !number.MatchString(ordinal) || !number.MatchString(arguments[i+1]) {
			return false
		}
	}
	return len(arguments) > 0 && len(arguments)%2 == 0
}
