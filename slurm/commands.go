package slurm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// commands asks the controller by Slurm's commands.
type commands struct{ runner Runner }

func (c commands) String() string { return c.runner.String() }

// commandTime bounds one of Slurm's commands: with its controller away each tries for 9 seconds.
const commandTime = time.Minute

// run runs a command and returns what it printed.
func run(ctx context.Context, r Runner, argv ...string) (string, error) {
	out, _, err := runBoth(ctx, r, argv...)
	return out, err
}

// runBoth also returns what the command said on standard error.
func runBoth(ctx context.Context, r Runner, argv ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := r.Command(ctx, argv...)
	var out strings.Builder
	var said tail
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	if ctx.Err() != nil && err != nil {
		err = ctx.Err()
	}
	if err != nil {
		failed := &commandError{name: argv[0], said: complaint(&said), err: err}
		if unanswered(failed) {
			failed.err = errors.Join(errAway, err)
		}
		err = failed
	}
	return out.String(), said.String(), err
}

// run runs one of Slurm's commands.
func (s *site) run(ctx context.Context, argv ...string) (string, error) {
	return run(ctx, s.runner, argv...)
}

// complaint is what a command of Slurm says of its failure, without its own name: the last line that is an error.
func complaint(t *tail) string {
	lines := strings.Split(strings.TrimSpace(t.String()), "\n")
	said := lines[len(lines)-1]
	for _, line := range lines {
		if strings.Contains(line, "error: ") || strings.Contains(line, "unrecognized option") {
			said = line
		}
	}
	return strings.TrimSpace(prefix.ReplaceAllString(said, ""))
}

var prefix = regexp.MustCompile(`^(sbatch|squeue|scancel|srun|scontrol|sinfo|slurm_load_\w+):( error:)?\s*|Batch job submission failed:\s*|allocation failure:\s*|^slurm_\w+ error:\s*`)

// unanswered says whether a command failed because the controller or the way to it does not answer.
func unanswered(failed *commandError) bool {
	var exit *exec.ExitError
	if !errors.As(failed.err, &exit) {
		return true // it was killed by us, or did not run
	}
	for _, words := range noAnswer {
		if strings.Contains(failed.said, words) {
			return true
		}
	}
	return exit.ExitCode() < 0 || exit.ExitCode() == 255 && failed.said == "" // killed, or ssh without a word
}

// noAnswer are words of Slurm and ssh when somebody does not answer.
var noAnswer = []string{"Unable to contact slurm controller", "Socket timed out", "Zero Bytes were transmitted", "Connection refused", "Connection timed out", "Transport endpoint",
	"connect failure", "ssh: ", "Host key verification failed", "Connection closed", "Connection reset", "mux_client"}

// timesAsNumbers is how Slurm's commands are to print times.
const timesAsNumbers = "SLURM_TIME_FORMAT=%s"

func (c commands) submit(ctx context.Context, b batch) (int, error) {
	out, err := run(ctx, c.runner, clean("sbatch", "--parsable", b.file)...)
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

func (c commands) jobs(ctx context.Context) ([]Job, error) {
	return c.squeue(ctx, "--me", "--states=all")
}

func (c commands) everybodys(ctx context.Context) ([]Job, error) { return c.squeue(ctx) }

// squeue asks for jobs in all partitions, hidden ones too.
func (c commands) squeue(ctx context.Context, args ...string) ([]Job, error) {
	argv := append([]string{timesAsNumbers, "squeue", "--all", "--noheader", "--format=" + textFormat}, args...)
	out, err := run(ctx, c.runner, clean(argv...)...)
	if err != nil {
		return nil, err
	}
	return parseText(out)
}

func (c commands) cancel(ctx context.Context, id int, onlyWaiting bool) error {
	argv := []string{"scancel"}
	if onlyWaiting {
		argv = append(argv, "--state=PENDING")
	}
	_, err := run(ctx, c.runner, clean(append(argv, strconv.Itoa(id))...)...)
	if err != nil && strings.Contains(err.Error(), "Invalid job id") {
		return nil
	}
	return err
}

func (c commands) extend(ctx context.Context, id int, limit string) error {
	_, err := run(ctx, c.runner, clean("scontrol", "update", "JobId="+strconv.Itoa(id), "TimeLimit="+limit)...)
	return err
}

// version also asks whether the controller answers.
func (c commands) version(ctx context.Context) (string, error) {
	out, err := run(ctx, c.runner, clean("sinfo", "--version")...)
	if err != nil {
		return "", err
	}
	_, err = run(ctx, c.runner, clean("sinfo", "--noheader", "--format=%R")...) // unlike scontrol ping it fails when nobody answers
	name, number, _ := strings.Cut(strings.TrimSpace(out), " ")
	if name != "" {
		name = strings.ToUpper(name[:1]) + name[1:]
	}
	return name + " " + number, err
}

// testOnly is what sbatch --test-only says on standard error: "Job 39 to start at 1795253221 using 2 processors on nodes node[1-2] in partition
// main" (25.05 and later: "... 1795253221 a using ...").
var testOnly = regexp.MustCompile(`to start at (\d+) `)

func (c commands) plannedStart(ctx context.Context, b batch) (time.Time, error) {
	_, said, err := runBoth(ctx, c.runner, clean(timesAsNumbers, "sbatch", "--test-only", b.file)...)
	if err != nil {
		return time.Time{}, err
	}
	if m := testOnly.FindStringSubmatch(said); m != nil {
		return textTime(m[1]), nil
	}
	return time.Time{}, nil
}

// String is all that was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
