package clusters

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/nodefiles"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
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
	if _, err := app.Ability[launcher.Execer](l, "--fetch"); err != nil {
		return nil, err
	}
	return &fetcher{a: a, c: &app.Cluster{Launcher: l, ID: id}, dir: dir}, nil
}

// See copies at once if the keeper waits for that, because the directory goes with the nodes.
func (f *fetcher) See(ctx context.Context, s launcher.Status) {
	if f == nil || s.Reason.Code != runstate.ReasonFetch {
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

// whileHeld copies from the node, and tells the keeper that it does, and that it has.
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
	told.Go(func() {
		for sleep.For(copying, speaks) {
			if err := tell(false); err != nil {
				f.a.Logger().Debug("the keeper was not told that the output directory is being copied", "error", err)
			}
		}
	})
	err := f.copy(ctx, node)
	stop()
	told.Wait()
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
		<-f.held
	} else {
		f.err = f.copy(ctx, "")
	}
	if errors.Is(f.err, nodefiles.ErrNothing) {
		f.a.UI.Note("--fetch: the driver has left nothing in $RAYCTL_OUTPUT_DIR")
		return nil
	}
	return f.err
}

func (f *fetcher) copy(ctx context.Context, node string) error {
	e, err := app.Ability[launcher.Execer](f.c.Launcher, "--fetch")
	if err != nil {
		return err
	}
	from, to, err := nodefiles.New(f.a.UI, e, f.c.ID, node).Results(ctx, f.c, f.dir)
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
