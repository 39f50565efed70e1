package dashboardclient

import (
	"context"
	"fmt"
	"time"

	"github.com/rayctl/rayctl/launcher/sleep"
)

// rhythm is the wait before the next poll, given the time since the first.
type rhythm func(elapsed time.Duration) time.Duration

// steady polls at a constant rate.
func steady(d time.Duration) rhythm { return func(time.Duration) time.Duration { return d } }

// jobRhythm depends on the job's age: a short job is not kept waiting, a long one does not load the head.
// Ray offers no watch on a job, and itself checks its driver once a second.
func jobRhythm(elapsed time.Duration) time.Duration {
	switch {
	case elapsed < 15*time.Second:
		return 75 * time.Millisecond
	case elapsed < 2*time.Minute:
		return 250 * time.Millisecond
	default:
		return time.Second
	}
}

// endRhythm is for a running job. It is fast for two seconds, because most jobs that end in this time end at once.
func endRhythm(elapsed time.Duration) time.Duration {
	if elapsed < 2*time.Second {
		return 25 * time.Millisecond
	}
	return jobRhythm(elapsed)
}

// pollUntil calls check until it reports done or an error, or ctx ends.
func pollUntil(ctx context.Context, wait rhythm, check func() (done bool, err error)) error {
	start := time.Now()
	for {
		done, err := check()
		if done || err != nil {
			return err
		}
		if !sleep.For(ctx, wait(time.Since(start))) {
			return fmt.Errorf("waiting: %w", ctx.Err())
		}
	}
}
