package clusters

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/nodefiles"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// speaks is how often a client that copies tells the keeper so, which waits six times as long for a word.
const speaks = 10 * time.Second

// fetcher brings the output directory of a run to this machine at its end (run --fetch). nil: nobody asked for it.
type fetcher struct {
	a     *app.App
	c     *app.Cluster
	dir   string
	begin sync.Once
	held  chan struct{} // closed when what the keeper waited for has been copied; nil: it did not wait
	err   error         // of the copy
}

// newFetcher refuses what cannot be copied to.
func newFetcher(a *app.App, l launcher.Launcher, id launcher.ID, dir string) (*fetcher, error) {
	if dir == "" {
		return nil, nil
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, app.UsageError("give a directory, which is made if it is missing", "--fetch: %s is not a directory", dir)
	}
	return &fetcher{a: a, c: &app.Cluster{Launcher: l, ID: id}, dir: dir}, nil
}

// See copies at once if the keeper waits for that, because the directory goes with the nodes.
func (f *fetcher) See(ctx context.Context, s launcher.Status) {
	if f == nil || s.Job == nil || !s.Job.WaitsForFetch {
		return
	}
	f.begin.Do(func() {
		f.held = make(chan struct{})
		go func() {
			defer close(f.held)
			f.err = f.whileHeld(ctx, driverNode(s))
		}()
	})
}

// whileHeld copies from the node, and tells the keeper that it does as long as bytes arrive, and that it has. After a failure it tells nothing: what it has not copied
// is there for another minute.
func (f *fetcher) whileHeld(ctx context.Context, node string) error {
	copying, stop := context.WithCancel(ctx)
	defer stop()
	tell := func(done bool) error {
		return f.a.AskKeeper(ctx, f.c, func(k *keeper.Client) error {
			_, err := k.Fetch(ctx, done)
			return err
		})
	}
	var told sync.WaitGroup
	var arrived atomic.Int64
	told.Go(func() {
		for before := int64(0); sleep.For(copying, speaks); {
			now := arrived.Load()
			if now == before {
				continue // whoever hangs does not hold the nodes
			}
			before = now
			if err := tell(false); err != nil {
				f.a.Logger().Debug("the keeper was not told that the output directory is being copied", "error", err)
			}
		}
	})
	err := f.copy(ctx, node, &arrived)
	stop()
	told.Wait()
	if err != nil && !errors.Is(err, nodefiles.ErrNothing) {
		return err
	}
	if terr := tell(true); terr != nil { // it goes on after a minute
		f.a.Logger().Debug("the keeper was not told that the output directory is copied", "error", terr)
	}
	return err
}

// Finish copies after the end, unless the keeper has waited for a copy.
func (f *fetcher) Finish(ctx context.Context) error {
	if f == nil {
		return nil
	}
	if f.held != nil {
		select {
		case <-f.held:
		case <-ctx.Done():
			return ctx.Err()
		}
	} else {
		f.err = f.copy(ctx, "", new(atomic.Int64))
	}
	if errors.Is(f.err, nodefiles.ErrNothing) {
		f.a.UI.Note("--fetch: the driver has left nothing in $RAYCTL_OUTPUT_DIR")
		return nil
	}
	return f.err
}

// copy counts the bytes that arrive.
func (f *fetcher) copy(ctx context.Context, node string, arrived *atomic.Int64) error {
	n := nodefiles.New(f.a.UI, f.c.Launcher, f.c.ID, node)
	n.Report = func(p launcher.Progress) {
		arrived.Store(p.Done)
		f.a.UI.Transfer(p)
	}
	from, to, err := n.Results(ctx, f.c, f.dir)
	if err == nil {
		f.a.UI.Note("copied %s:%s to %s", f.c.ID, from, to)
	}
	return err
}

// driverNode is the name of the node that the driver ran on; "" is the head.
func driverNode(s launcher.Status) string {
	if s.Job == nil || s.Job.DriverNodeID == s.Head.NodeID {
		return ""
	}
	for _, n := range s.Nodes {
		if n.NodeID == s.Job.DriverNodeID {
			return n.Name
		}
	}
	return ""
}
