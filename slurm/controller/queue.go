package controller

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/rayctl/rayctl/launcher/sharedfile"
)

// Queue is the last answer of the controller: one question for all clusters of the user that are watched, by this process and, with a file, by
// all processes of the user on this machine.
type Queue struct {
	controller Controller
	file       string // "": not shared with other processes
	log        *slog.Logger

	mu    sync.Mutex
	last  answered
	plans plans
}

// NewQueue returns the queue of a controller. file, unless it is "", is where all processes of the user share answers.
func NewQueue(c Controller, file string, log *slog.Logger) *Queue {
	return &Queue{controller: c, file: file, log: log}
}

// answered is the controller's answer, or why there is none.
type answered struct {
	Began time.Time `json:"began"` // of the question
	Ended time.Time `json:"ended"`
	Jobs  []Job     `json:"jobs,omitempty"`
	Away  string    `json:"Away,omitempty"` // why there is no answer
}

// Ages up to which an answer is good enough.
const (
	WaitingAge = 12 * time.Second // at first, later as RunningAge; a squeue is two requests (jobs, partitions): six in the first minute, then four
	RunningAge = 30 * time.Second // two
	Fresh      = time.Duration(0)
)

// awayAge is how long all believe that the controller is Away when one has just waited for it in vain.
const awayAge = 10 * time.Second

// good reports whether an answer is recent enough for a request made at asked.
func (a answered) good(asked time.Time, age time.Duration) bool {
	switch {
	case a.Began.IsZero():
		return false
	case a.Away != "":
		return a.Ended.After(asked) || age > 0 && time.Since(a.Ended) < awayAge
	default:
		return a.Began.After(asked) || time.Since(a.Began) < age
	}
}

// Ask returns the controller's jobs, at most age old. Concurrent callers share one request.
func (q *Queue) Ask(ctx context.Context, age time.Duration) ([]Job, error) {
	jobs, _, err := q.AskWhen(ctx, age)
	return jobs, err
}

// AskWhen also returns when the request behind the answer began.
func (q *Queue) AskWhen(ctx context.Context, age time.Duration) ([]Job, time.Time, error) {
	asked := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.last.good(asked, age) {
		if err := q.refresh(ctx, asked, age); err != nil {
			return nil, time.Time{}, err
		}
	}
	if q.last.Away != "" {
		return nil, time.Time{}, &CommandError{Said: q.last.Away, Err: errAway}
	}
	return q.last.Jobs, q.last.Began, nil
}

// refresh takes another process's answer, or queries the controller and stores the answer for all of them.
func (q *Queue) refresh(ctx context.Context, asked time.Time, age time.Duration) error {
	if q.file == "" {
		return q.question(ctx)
	}
	if q.shared(asked, age) {
		return nil
	}
	release, err := q.turn(ctx, q.file)
	if err != nil {
		return err
	}
	if release == nil {
		return q.question(ctx)
	}
	defer release()
	if q.shared(asked, age) {
		return nil
	}
	if err := q.question(ctx); err != nil {
		return err
	}
	q.share(q.file, q.last)
	return nil
}

// turn waits until no other process makes the request whose answers are shared through a file. A nil release without an error: they cannot be shared.
func (q *Queue) turn(ctx context.Context, file string) (release func(), err error) {
	lock, err := sharedfile.Acquire(ctx, file+".lock")
	if err == nil {
		return lock.Release, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	q.notShared(file, err)
	return nil, nil //nolint:nilnil // as the comment has it
}

func (q *Queue) notShared(file string, err error) {
	q.log.Debug("answers of Slurm cannot be shared", "file", file, "error", err)
}

// question makes the request to the controller.
func (q *Queue) question(ctx context.Context) error {
	began := time.Now()
	jobs, err := q.controller.Jobs(ctx)
	if err != nil && (!Away(err) || ctx.Err() != nil) {
		return err // this request failed, not the controller
	}
	q.last = answered{Began: began, Ended: time.Now(), Jobs: jobs}
	if err != nil {
		q.last.Away = err.Error()
	}
	return nil
}

// shared reads the answer that another process stored.
func (q *Queue) shared(asked time.Time, age time.Duration) bool {
	var a answered
	text, err := os.ReadFile(q.file)
	if err != nil || json.Unmarshal(text, &a) != nil || a.Began.After(time.Now()) || !a.good(asked, age) {
		return false // another reader will write it anew
	}
	q.last = a
	return true
}

// share stores an answer for other processes. The file is replaced atomically.
func (q *Queue) share(file string, answer any) {
	text, err := json.Marshal(answer)
	if err == nil {
		err = sharedfile.Write(file, text, 0o600)
	}
	if err != nil {
		q.notShared(file, err)
	}
}
