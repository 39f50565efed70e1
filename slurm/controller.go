package slurm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// controller asks Slurm's controller. Slurm's own commands and slurmrestd are the two ways.
type controller interface {
	// submit hands in a job and returns its id. A refusal is a *commandError with Slurm's words; after an error that is away the job may
	// be there all the same.
	submit(ctx context.Context, b batch) (int, error)
	// jobs are all jobs of the user, ended ones too as long as the controller knows them.
	jobs(ctx context.Context) ([]Job, error)
	// everybodys are the jobs of all users that wait or run, as far as the site shows them.
	everybodys(ctx context.Context) ([]Job, error)
	// cancel ends a job: TERM, and KILL after the site's KillWait. A job that is not there is fine. onlyWaiting: not one that has begun.
	cancel(ctx context.Context, id int, onlyWaiting bool) error
	// extend sets the time limit of a job: minutes from its start, or UNLIMITED.
	extend(ctx context.Context, id int, limit string) error
	// plannedStart is when a job would start if it were submitted now; zero where Slurm cannot be asked. A job that could never run is refused
	// as submit refuses it.
	plannedStart(ctx context.Context, b batch) (time.Time, error)
	// version is Slurm's, as the controller's side tells it: "Slurm 24.11.5".
	version(ctx context.Context) (string, error)
	// String says where, for notes and errors.
	String() string
}

// batch is a job to submit.
type batch struct {
	plan        plan
	file        string   // of the script, on the site
	environment []string // that the job starts with: NAME=VALUE
}

// site is one Slurm cluster as this user reaches it: its controller, commands and files.
type site struct {
	controller
	runner Runner
	files  *files
}

// commandError is a request to Slurm that failed.
type commandError struct {
	name string
	said string // its last words
	err  error  // errAway if it may have worked
}

func (e *commandError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("%s: %v", e.name, e.err)
	}
	return e.said
}

func (e *commandError) Unwrap() error { return e.err }

// errAway says that the controller or the way to it did not answer, so that the request may have worked.
var errAway = errors.New("no answer")

// away says whether a request failed so that it may have worked.
func away(err error) bool { return errors.Is(err, errAway) || errors.Is(err, errCut) }

// unreachable is the error of a controller that does not answer.
func (s *site) unreachable(err error) error {
	var known *launcher.ExitError
	if errors.As(err, &known) {
		return err
	}
	return launcher.Fail(runstate.CodeUnreachable, err, "try again when it answers; `rayctl doctor` looks closer", "Slurm does not answer on %s: %v", s.controller, err)
}
