// Package sleep waits between two polls of something that cannot be watched.
package sleep

import (
	"context"
	"time"
)

// For waits, and returns whether ctx still lives. It returns at once when ctx ends.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
