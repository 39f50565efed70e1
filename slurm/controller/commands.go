package controller

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/launcher/tail"
	"github.com/rayctl/rayctl/slurm/remote"
)

// Commands implements Controller with Slurm's commands.
type Commands struct {
	Runner  remote.Runner
	Cluster string   // of several that the commands know (--clusters); "": theirs
	Keep    []string // names of variables that jobs start with, if they are set there, beside those that they always do
}

func (c Commands) String() string { return c.Runner.String() }

// commandTime bounds one of Slurm's commands: with its controller Away each tries for 9 seconds.
const commandTime = time.Minute

// Run runs a command that may be repeated, and returns what it printed. Where the connection was cut it runs once more, on another one: all of Slurm's commands
// but sbatch and srun ask, or set what may be set twice.
func Run(ctx context.Context, r remote.Runner, argv ...string) (string, error) {
	out, err := RunFor(ctx, commandTime, r, argv...)
	if cut(err) && ctx.Err() == nil {
		out, err = RunFor(ctx, commandTime, r, argv...)
	}
	return out, err
}

// RunFor runs a command once, which may take so long.
func RunFor(ctx context.Context, limit time.Duration, r remote.Runner, argv ...string) (string, error) {
	out, _, err := runBoth(ctx, limit, r, argv...)
	return out, err
}

// runBoth also returns the command's standard error.
func runBoth(ctx context.Context, limit time.Duration, r remote.Runner, argv ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := r.Command(ctx, remote.Marked(argv...)...)
	var out strings.Builder
	var said tail.Tail
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	if ctx.Err() != nil && err != nil {
		err = ctx.Err()
	}
	if err != nil {
		failed := &CommandError{name: commandOf(argv), Said: remote.Complaint(&said), Err: err}
		if unanswered(failed) {
			failed.Err = fmt.Errorf("%w (%w)", errAway, err)
		}
		err = failed
	}
	return remote.AfterMark(out.String()), said.String(), err
}

// commandOf is the name of the command in a line of remote.Clean: sh -c PROGRAM sh [NAME=VALUE...] COMMAND...
func commandOf(argv []string) string {
	if argv[0] != "sh" || len(argv) < 5 {
		return argv[0]
	}
	for _, word := range argv[4:] {
		if !strings.Contains(word, "=") {
			return word
		}
	}
	return argv[0]
}

// cut reports whether ssh lost its connection while the command ran. Of a shared one that ends (ControlMaster) the ssh of the command often says nothing.
func cut(err error) bool {
	var failed *CommandError
	var exit *exec.ExitError
	if !errors.As(err, &failed) || !errors.As(err, &exit) || exit.ExitCode() != 255 {
		return false
	}
	return failed.Said == "" || says(failed, cutWords)
}

func says(failed *CommandError, some []string) bool {
	return slices.ContainsFunc(some, func(words string) bool { return strings.Contains(failed.Said, words) })
}

var cutWords = []string{"mux_client", "Connection closed", "Connection reset", "Broken pipe"}

// unanswered reports whether a command failed because the controller or the way to it does not answer.
func unanswered(failed *CommandError) bool {
	var exit *exec.ExitError
	if !errors.As(failed.Err, &exit) {
		return true // it was killed by us, or did not run
	}
	return exit.ExitCode() < 0 || cut(failed) || says(failed, noAnswer) // < 0: it was killed
}

// noAnswer are words of Slurm and ssh when somebody does not answer.
var noAnswer = []string{"Unable to contact slurm controller", "Socket timed out", "Zero Bytes were transmitted", "Connection refused", "Connection timed out", "Transport endpoint",
	"connect failure", "ssh: ", "Host key verification failed", "Connection closed", "Connection reset", "mux_client"}

// timesAsNumbers is how Slurm's commands are to print times.
const timesAsNumbers = "SLURM_TIME_FORMAT=%s"

// clean is the command line of one of Slurm's commands about the cluster that is meant, in a clean environment.
func (c Commands) clean(command string, args ...string) []string {
	return remote.Clean(c.meant(command, args...)...)
}

// asking is clean for questions whose answers have times. (What sbatch has in its environment when it submits would be the job's.)
func (c Commands) asking(command string, args ...string) []string {
	return remote.Clean(append([]string{timesAsNumbers}, c.meant(command, args...)...)...)
}

func (c Commands) meant(command string, args ...string) []string {
	return slices.Concat([]string{command}, OfCluster(c.Cluster), args)
}

// OfCluster are the arguments of Slurm's commands that name a cluster: none for the commands' own.
func OfCluster(name string) []string {
	if name == "" {
		return nil
	}
	return []string{"--clusters=" + name}
}

// Submit implements Controller.
func (c Commands) Submit(ctx context.Context, b Batch) (int, error) {
	argv := b.Argv
	if argv == nil {
		argv = []string{b.File}
	}
	out, err := RunFor(ctx, commandTime, c.Runner, remote.CleanWith(c.Keep, c.meant("sbatch", append([]string{"--parsable"}, argv...)...)...)...)
	if err != nil {
		return 0, err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	id, _, _ := strings.Cut(lines[len(lines)-1], ";") // ID;cluster
	number, err := strconv.Atoi(strings.TrimSpace(id))
	if err != nil {
		return 0, fmt.Errorf("sbatch's answer %q is not a job id", out)
	}
	return number, nil
}

// Jobs implements Controller.
func (c Commands) Jobs(ctx context.Context) ([]Job, error) {
	return c.squeue(ctx, "--me", "--states=all")
}

// Everybodys implements Controller.
func (c Commands) Everybodys(ctx context.Context) ([]Job, error) { return c.squeue(ctx) }

// squeue lists jobs of all partitions, including hidden ones.
func (c Commands) squeue(ctx context.Context, args ...string) ([]Job, error) {
	out, err := Run(ctx, c.Runner, c.asking("squeue", append([]string{"--all", "--noheader", "--format=" + textFormat}, args...)...)...)
	if err != nil {
		return nil, err
	}
	return parseText(out)
}

// Cancel implements Controller.
func (c Commands) Cancel(ctx context.Context, id int, onlyWaiting bool) error {
	args := []string{strconv.Itoa(id)}
	if onlyWaiting {
		args = append(args, "--state=PENDING")
	}
	_, err := Run(ctx, c.Runner, c.clean("scancel", args...)...)
	if err != nil && strings.Contains(err.Error(), "Invalid job id") {
		return nil
	}
	return err
}

// Extend implements Controller.
func (c Commands) Extend(ctx context.Context, id int, limit string) error {
	_, err := Run(ctx, c.Runner, c.clean("scontrol", "update", "JobId="+strconv.Itoa(id), "TimeLimit="+limit)...)
	return err
}

// Version implements Controller. It fails if the controller does not answer.
func (c Commands) Version(ctx context.Context) (string, error) {
	out, err := Run(ctx, c.Runner, c.clean("sinfo", "--version")...)
	if err != nil {
		return "", err
	}
	_, err = Run(ctx, c.Runner, c.clean("sinfo", "--noheader", "--format=%R")...) // unlike scontrol ping it fails when nobody answers
	name, number, _ := strings.Cut(strings.TrimSpace(out), " ")
	if name != "" {
		name = strings.ToUpper(name[:1]) + name[1:]
	}
	return name + " " + number, err
}

// testOnly matches what sbatch --test-only prints on standard error: "Job 39 to start at 1795253221 using 2 processors on nodes node[1-2] in partition
// main" (25.05 and later: "... 1795253221 a using ...").
var testOnly = regexp.MustCompile(`to start at (\d+) `)

// A controller that has just started knows no node until its slurmd has registered, for about 3 s here, and refuses with these words what it would take before
// and after (ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE, with "Requested node config" before 19.05; measured on 24.11).
const (
	noSuchNode = "Requested node config"
	nodesTime  = 20 * time.Second // for the nodes to register
	nodesEvery = time.Second
)

// PlannedStart implements Controller.
func (c Commands) PlannedStart(ctx context.Context, b Batch) (time.Time, error) {
	known := false
	for until := time.Now().Add(nodesTime); ; {
		_, said, err := runBoth(ctx, commandTime, c.Runner, c.asking("sbatch", "--test-only", b.File)...)
		if err == nil {
			return plannedStart(said), nil
		}
		if !strings.Contains(err.Error(), noSuchNode) || ctx.Err() != nil || time.Now().After(until) || known {
			return time.Time{}, err
		}
		if known = !c.nodesUnknown(ctx); known { // they may have registered since the refusal
			continue
		}
		sleep.For(ctx, nodesEvery)
	}
}

// nodesUnknown reports whether the controller waits for nodes to register. Where it cannot be asked it does not.
func (c Commands) nodesUnknown(ctx context.Context) bool {
	out, err := Run(ctx, c.Runner, c.clean("sinfo", "--noheader", "--states=unknown", "--format=%n")...)
	return err == nil && strings.TrimSpace(out) != ""
}

func plannedStart(said string) time.Time {
	if m := testOnly.FindStringSubmatch(said); m != nil {
		return textTime(m[1])
	}
	return time.Time{}
}
