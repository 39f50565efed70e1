// Package controller makes requests to Slurm's controller, by its commands or slurmrestd, and shares the answers among all who watch clusters.
package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/script"
)

// Controller makes requests to Slurm's controller. There are two implementations: Slurm's own commands and slurmrestd.
type Controller interface {
	// Submit hands in a job and returns its id. A refusal is a *CommandError with Slurm's words; after an error that is Away the job may
	// be there all the same.
	Submit(ctx context.Context, b Batch) (int, error)
	// Jobs are all jobs of the user, including ended ones as long as the controller keeps them.
	Jobs(ctx context.Context) ([]Job, error)
	// Everybodys are the jobs of all users that wait or run, as far as the site shows them.
	Everybodys(ctx context.Context) ([]Job, error)
	// Cancel ends a job: TERM, and KILL after the site's KillWait. A job that is not there is fine. onlyWaiting: not one that has begun.
	Cancel(ctx context.Context, id int, onlyWaiting bool) error
	// Steps are those of all jobs of the user that run. ErrNoSteps: it cannot be asked for them.
	Steps(ctx context.Context) ([]Step, error)
	// CancelSteps ends steps at once. One that is not there is fine.
	CancelSteps(ctx context.Context, ids []string) error
	// Extend sets the time limit of a job: minutes from its start, or UNLIMITED.
	Extend(ctx context.Context, id int, limit string) error
	// PlannedStart is when a job would start if it were submitted now; zero where Slurm cannot be asked. A job that could never run is refused
	// as Submit refuses it.
	PlannedStart(ctx context.Context, b Batch) (time.Time, error)
	// Partitions are all partitions, hidden ones too.
	Partitions(ctx context.Context) ([]script.Partition, error)
	// Federation is the federation that the cluster is in; none where Slurm cannot be asked.
	Federation(ctx context.Context) (Federation, error)
	// Version is Slurm's, as the controller's host reports it: "Slurm 24.11.5".
	Version(ctx context.Context) (string, error)
	// String names the place of the controller, for notes and errors.
	String() string
}

// Batch is a job to submit.
type Batch struct {
	Plan        script.Plan
	File        string   // of the script, on the site
	Argv        []string // of sbatch, in the place of File: options, script and its arguments
	Text        string   // of the script in Argv; only slurmrestd needs it, and Plan with it
	Environment []string // that the job starts with: NAME=VALUE
}

// CommandError is a request to Slurm that failed.
type CommandError struct {
	name string
	Said string // its last words
	Err  error  // errAway if it may have worked
}

func (e *CommandError) Error() string {
	if e.Said == "" {
		return fmt.Sprintf("%s: %v", e.name, e.Err)
	}
	return e.Said
}

func (e *CommandError) Unwrap() error { return e.Err }

// errAway is the error of a request that got no answer from the controller or from the connection to it: it may have been carried out.
var errAway = errors.New("no answer")

// Away reports whether a request failed without an answer, so that it may have been carried out.
func Away(err error) bool { return errors.Is(err, errAway) || errors.Is(err, remote.ErrCut) }
