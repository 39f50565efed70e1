package launcher

import (
	"context"
	"log/slog"
	"time"

	"github.com/rayctl/rayctl/launcher/sleep"
)

// Tender is of a launcher that does something for a cluster while the client watches that launched it, such as deleting early what the substrate would delete
// some seconds later. The cluster does not depend on it.
type Tender interface {
	// WatchAndTend is Watch that does so.
	WatchAndTend(ctx context.Context, id ID) (<-chan Status, error)
}

// WatchAndTend is Watch for the client that launched the cluster. Commands that only read call Watch.
func WatchAndTend(ctx context.Context, l Launcher, id ID) (<-chan Status, error) {
	if t, able := l.(Tender); able {
		return t.WatchAndTend(ctx, id)
	}
	return l.Watch(ctx, id)
}

// Tend carries out Status.Due. A failure is retried a few times and then left to the next launch or gc.
func Tend(ctx context.Context, l Launcher, id ID, due End, log *slog.Logger) {
	for range tendTries {
		err := l.Terminate(ctx, id, due)
		if err == nil {
			return
		}
		log.Debug("what is due could not be done", "cluster", id, "due", due.Message, "error", err)
		if !sleep.For(ctx, tendPause) {
			return
		}
	}
}

const (
	tendTries = 3
	tendPause = 2 * time.Second
)
