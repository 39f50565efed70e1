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

	"github.com/rayctl/rayctl/launcher"
)

// site is one Slurm cluster as this user reaches it: commands and files.
type site struct {
	runner Runner
	files  *files
}

// commandTime bounds one of Slurm's commands: with its controller away each tries for 9 seconds.
const commandTime = time.Minute

// commandError is a command of Slurm that failed.
type commandError struct {
	name string
	said string // its last words
	err  error
}

func (e *commandError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("%s: %v", e.name, e.err)
	}
	return e.said
}

func (e *commandError) Unwrap() error { return e.err }

// run runs a command and returns what it printed.
func (s *site) run(ctx context.Context, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := s.runner.Command(ctx, argv...)
	var out strings.Builder
	var said tail
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if ctx.Err() != nil && err != nil {
		err = ctx.Err()
	}
	if err != nil {
		return out.String(), &commandError{name: argv[0], said: complaint(&said), err: err}
	}
	return out.String(), nil
}

// complaint is what a command of Slurm says of its failure, without its own name: the last line that is an error.
func complaint(t *tail) string {
	t.mu.Lock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	t.mu.Unlock()
	said := lines[len(lines)-1]
	for _, line := range lines {
		if strings.Contains(line, "error: ") || strings.Contains(line, "unrecognized option") {
			said = line
		}
	}
	return strings.TrimSpace(prefix.ReplaceAllString(said, ""))
}

var prefix = regexp.MustCompile(`^(sbatch|squeue|scancel|srun|scontrol|slurm_load_\w+):( error:)?\s*|Batch job submission failed:\s*|^slurm_\w+ error:\s*`)

// kept are the variables of the login environment that a job starts with. All else, secrets among it, would be stored by Slurm.
const cleanEnvironment = `for v in PATH HOME USER LOGNAME SHELL LANG SLURM_CONF MODULESHOME MODULEPATH LMOD_CMD LMOD_DIR BASH_ENV; do
if eval "[ -n \"\${$v+x}\" ]"; then eval "set -- \"$v=\$$v\" \"\$@\""; fi; done; exec env -i "$@"`

// submit runs sbatch in a clean environment and returns the job's id.
func (s *site) submit(ctx context.Context, args ...string) (int, error) {
	argv := append([]string{"sh", "-c", cleanEnvironment, "sh", "sbatch", "--parsable"}, args...)
	out, err := s.run(ctx, argv...)
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

// jobs asks the controller for all jobs of the user, ended ones too as long as it knows them.
func (s *site) jobs(ctx context.Context) ([]Job, error) {
	out, err := s.run(ctx, "env", "SLURM_TIME_FORMAT=%s", "squeue", "--me", "--states=all", "--noheader", "--format="+textFormat)
	if err != nil {
		return nil, err
	}
	return parseText(out)
}

// cancel ends a job: TERM, and KILL after the site's KillWait. A job that is not there is fine.
func (s *site) cancel(ctx context.Context, args ...string) error {
	_, err := s.run(ctx, append([]string{"scancel"}, args...)...)
	if err != nil && strings.Contains(err.Error(), "Invalid job id") {
		return nil
	}
	return err
}

// away says whether a command failed because the controller or the way to it does not answer, so that it may have worked.
func away(err error) bool {
	var failed *commandError
	if !errors.As(err, &failed) {
		return errors.Is(err, errCut)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return true // it was killed by us, or did not run
	}
	for _, words := range []string{"Unable to contact slurm controller", "Socket timed out", "Zero Bytes were transmitted", "Connection refused", "Connection timed out", "Transport endpoint", "connect failure",
		"ssh: ", "Host key verification failed", "Connection closed", "Connection reset", "mux_client"} {
		if strings.Contains(failed.said, words) {
			return true
		}
	}
	return exit.ExitCode() < 0 || exit.ExitCode() == 255 && failed.said == "" // killed, or ssh without a word
}

// unreachable is the error of a controller that does not answer.
func (s *site) unreachable(err error) error {
	return launcher.Fail(launcher.CodeUnreachable, err, "try again when it answers; `rayctl doctor` looks closer", "Slurm does not answer on %s: %v", s.runner, err)
}
