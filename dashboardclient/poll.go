package dashboardclient

import (
	"context"
	"fmt"
	"time"
)

// pause waits, or returns ctx's error if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

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

// poll calls check until it reports done or an error, or ctx ends.
func poll(ctx context.Context, wait rhythm, check func() (done bool, err error)) error {
	start := time.Now()
	for {
		done, err := check()
		if done || err != nil {
			return err
		}
		if err := pause(ctx, wait(time.Since(start))); err != nil {
			return fmt.Errorf("waiting: %w", err)
		}
	}
}
