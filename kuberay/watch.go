package kuberay

import (
	"context"
	"reflect"
	"time"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/kuberay/result"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// Watch merges what Kubernetes shows (list and watch, never polling) with the keeper's state. It changes nothing.
func (l *Launcher) Watch(ctx context.Context, id launcher.ID) (<-chan launcher.Status, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	return l.watch(ctx, c, id, nil)
}

// WatchAndTend is Watch for the client that has launched the cluster, or ends it: see tended for what it does for the cluster meanwhile.
func (l *Launcher) WatchAndTend(ctx context.Context, id launcher.ID) (<-chan launcher.Status, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	return l.watch(ctx, c, id, newTended(c, id, l.log, func(ctx context.Context, k *keeper.Client, missing []string) error {
		return l.giveAgain(ctx, id, k, missing)
	}))
}

// watch sends the statuses of a cluster; t is nil where it is only read.
func (l *Launcher) watch(ctx context.Context, c *api.Client, id launcher.ID, t *tended) (<-chan launcher.Status, error) {
	ctx, cancel := context.WithCancel(ctx)
	newCache := observe.NewCache
	if l.launchedHere(id) {
		newCache = observe.NewOwnCache
	}
	m, err := newCache(ctx, c, string(id))
	if err != nil {
		cancel()
		return nil, err
	}
	if o := m.Snapshot(); !o.Known() && l.resident(id) == nil {
		cancel()
		return nil, launcher.NotFound(id)
	}
	w := &watcher{
		l: l, c: c, id: id, tend: t, judge: dueJudge{Namespace: c.Namespace, ID: id}, objects: m, begun: time.Now(), out: make(chan launcher.Status),
		news: make(chan *runstate.State), changed: make(chan struct{}, 1), silent: make(chan struct{}, 1),
	}
	go func() {
		defer cancel()
		defer close(w.out)
		w.run(ctx)
	}()
	return w.out, nil
}

// watcher sends the statuses of one cluster.
type watcher struct {
	l       *Launcher
	c       *api.Client
	id      launcher.ID
	tend    *tended // nil where the cluster is only read
	judge   dueJudge
	objects *observe.Cache
	out     chan launcher.Status
	news    chan *runstate.State // from the keeper
	changed chan struct{}        // the keeper's pod may answer now
	silent  chan struct{}        // the keeper did not answer
	begun   time.Time

	state *runstate.State // the keeper's last word
	sent  *launcher.Status
	mute  bool // the keeper was asked and did not answer: what Kubernetes shows is all there is
}

// look is how often the status is computed again without an event: it depends on time too, as for a controller that has not reacted for a while.
const look = 5 * time.Second

func (w *watcher) run(ctx context.Context) {
	go w.listen(ctx)
	go w.tend.Run(ctx)
	tick := time.NewTicker(look)
	defer tick.Stop()
	recorded := w.tend.Recorded()
	for {
		o := w.objects.Snapshot()
		if o.Gone() {
			if st := w.final(ctx, o); ctx.Err() == nil {
				w.send(ctx, observe.FinalStatus(w.id, w.c.Namespace, o, st))
			}
			w.l.closeTransports(w.id)
			return
		}
		w.tend.See(ctx, o, w.state)
		if len(o.Role(objects.RoleKeeper)) > 0 || w.l.resident(w.id) != nil {
			select {
			case w.changed <- struct{}{}:
			default:
			}
		}
		s := w.l.living(&w.judge, o, w.state, w.objects.Trouble())
		if !w.awaitsKeeper(o) && !w.send(ctx, s) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-w.objects.Changed:
		case <-tick.C:
		case <-w.silent:
			w.mute = true
		case w.state = <-w.news:
		case <-recorded:
			recorded = nil
		}
	}
}

// living is the status of a cluster that is not gone, for Watch and List. st is nil where the keeper has not answered.
func (l *Launcher) living(judge *dueJudge, o *observe.Snapshot, st *runstate.State, trouble string) launcher.Status {
	s := observe.LivingStatus(judge.ID, judge.Namespace, o, st, trouble)
	s.Due = judge.End(o, st, l.resident(judge.ID) != nil)
	return s
}

// awaitsKeeper reports whether the first status must wait for the keeper's state, which has more than Kubernetes shows: some callers use only the first.
func (w *watcher) awaitsKeeper(o *observe.Snapshot) bool {
	return w.sent == nil && w.state == nil && !w.mute && w.l.resident(w.id) == nil && observe.KeeperRuns(o) && time.Since(w.begun) < look
}

// final is the keeper's last word, if that was its final one; else the record's state document. Without one it is the keeper's last word, nil if there is none.
func (w *watcher) final(ctx context.Context, o *observe.Snapshot) *runstate.State {
	if r := w.l.resident(w.id); r != nil {
		return keptHere(ctx, r)
	}
	if w.state != nil && w.state.Exit != nil {
		return w.state
	}
	if st := result.Of(o); st != nil {
		return st
	}
	if o.Record != nil { // its pod may be missing in what was mirrored
		if st, err := result.Read(ctx, w.c, o.Record); err == nil && st != nil {
			return st
		}
	}
	return w.state
}

// send sends a status that differs from the last.
func (w *watcher) send(ctx context.Context, s launcher.Status) bool {
	if w.sent != nil && sameStatus(*w.sent, s) {
		return ctx.Err() == nil
	}
	select {
	case w.out <- s:
		w.sent = &s
		return true
	case <-ctx.Done():
		return false
	}
}

// sameStatus compares what is seen; the moment at which a phase began is the keeper's or Kubernetes', or now.
func sameStatus(a, b launcher.Status) bool {
	if a.Phase == b.Phase {
		b.Since = a.Since
	}
	return reflect.DeepEqual(a, b)
}

// listen takes the keeper's states while its pod runs.
func (w *watcher) listen(ctx context.Context) {
	pause := soon
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		}
		if w.l.resident(w.id) == nil && !observe.KeeperRuns(w.objects.Snapshot()) {
			continue
		}
		begun := time.Now()
		if w.follow(ctx) {
			return
		}
		select {
		case w.silent <- struct{}{}:
		default:
		}
		if time.Since(begun) > keeperRetry { // it may just have ended: then its pod has the result for a moment
			pause = soon
		}
		if !sleep.For(ctx, pause) { // its pod is being replaced, or does not listen yet
			return
		}
		pause = min(2*pause, keeperRetry) // each time costs the API server a connection
	}
}

const (
	soon        = 50 * time.Millisecond
	keeperRetry = time.Second
)

// follow hands the keeper's states over until it does not answer; true after its last one.
func (w *watcher) follow(ctx context.Context) (ended bool) {
	e, err := w.l.Dial(ctx, w.id, launcher.Keeper)
	if err != nil {
		w.l.log.Debug("the keeper cannot be reached", "cluster", w.id, "error", err)
		return false
	}
	defer e.Close()
	k := launcher.KeeperClient(e)
	defer k.Close()
	for st, err := range k.Watch(ctx) {
		if err != nil {
			w.l.log.Debug("the keeper does not answer", "cluster", w.id, "error", err)
			return false
		}
		select {
		case w.news <- st:
		case <-ctx.Done():
			return true
		}
		w.tend.Hear(ctx, k, st)
		if st.Exit != nil {
			return true
		}
	}
	return false
}
