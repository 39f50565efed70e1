package kuberay

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

const (
	sideBySide = 8               // clusters that are watched at one time
	lookEvery  = 5 * time.Second // what is due depends on time, too
)

// stuck returns the ends that are due of clusters that have not started. A reason that may pass is watched for as long as a client that waits for the
// cluster would watch it, a minute at most.
func (f *repairFinder) stuck(ctx context.Context, starting map[string]*observe.Snapshot) (out []repair) {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(sideBySide)
	for name := range starting {
		g.Go(func() error {
			end, err := f.due(ctx, launcher.ID(name))
			if err != nil {
				f.Log.Debug("it is not known whether the cluster can start", "cluster", name, "error", err)
			}
			if end != nil {
				mu.Lock()
				defer mu.Unlock()
				out = append(out, repair{
					launcher.Collected{What: "cluster", Name: name, Why: end.Message},
					func(ctx context.Context) error { return f.Terminate(ctx, launcher.ID(name), *end) },
				})
			}
			return nil
		})
	}
	_ = g.Wait() // none has an error
	return out
}

// due is the end of a cluster that is due; nil: none is. A keeper that does not answer may be one whose cluster is ready, and could not be asked to end it either.
func (f *repairFinder) due(ctx context.Context, id launcher.ID) (*launcher.End, error) {
	st, err := f.State(ctx, id)
	if err != nil || st.Phase == runstate.Ready {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	live, err := observe.NewOwnCache(ctx, f.Client, string(id))
	if err != nil {
		return nil, err
	}
	judge := dueJudge{Namespace: f.Client.Namespace, ID: id}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if end := judge.End(live.Snapshot(), st, false); end != nil || !judge.Doubtful() {
			return end, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-live.Changed:
		case <-tick.C:
		}
	}
}
