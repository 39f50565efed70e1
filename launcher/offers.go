package launcher

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Submitter is of a launcher whose clusters get nodes by jobs of a batch system that their own nodes may not be allowed to submit.
type Submitter interface {
	// SubmitOffer submits jobs in the keeper's stead and returns their number; refusal is why there are none, in the batch system's words. After an error
	// the jobs may be there: the keeper looks for them.
	SubmitOffer(ctx context.Context, id ID, o keeper.Offer) (job, refusal string, err error)
	// CancelOffered cancels such jobs of a cluster that has ended meanwhile.
	CancelOffered(ctx context.Context, id ID, job string) error
}

// Offers submits the jobs that a cluster's keeper may not submit itself, while a client watches that may change things. Reading commands have none.
type Offers struct {
	l    Launcher
	id   ID
	log  *slog.Logger
	once sync.Once
	wake chan struct{}
	work sync.WaitGroup
}

// cancelTime bounds the cancellation of a job whose number could not be reported to the keeper.
const cancelTime = 20 * time.Second

// NewOffers does nothing yet.
func NewOffers(l Launcher, id ID, log *slog.Logger) *Offers {
	return &Offers{l: l, id: id, log: log, wake: make(chan struct{}, 1)}
}

// See takes a status of the cluster: where it has offers they are submitted, by a goroutine that ends with ctx.
func (o *Offers) See(ctx context.Context, s Status) {
	submitter, able := As[Submitter](o.l)
	if s.Offers == 0 || s.Phase.Ended() || !able {
		return
	}
	o.once.Do(func() { o.work.Go(func() { o.submit(ctx, submitter) }) })
	select {
	case o.wake <- struct{}{}:
	default: // it looks again anyway
	}
}

// Wait waits, after the end of See's ctx, until nothing is being submitted.
func (o *Offers) Wait() { o.work.Wait() }

func (o *Offers) submit(ctx context.Context, submitter Submitter) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		err := AskKeeper(ctx, o.l, o.id, func(k *keeper.Client) error { return o.take(ctx, submitter, k) })
		if err != nil && ctx.Err() == nil {
			o.log.Debug("a job that the cluster's nodes may not submit was not submitted", "cluster", o.id, "error", err)
		}
	}
}

// take submits one offer after the other. The keeper gives each to one client; what is not reported to it, it looks for.
func (o *Offers) take(ctx context.Context, submitter Submitter, k *keeper.Client) error {
	var report keeper.OfferReport
	for {
		offer, over, err := k.TakeOffer(ctx, report)
		if (over || err != nil) && report.Job != "" { // the keeper does not know of it: it offers it again if it is still there
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
			defer cancel()
			return errors.Join(err, submitter.CancelOffered(ctx, o.id, report.Job))
		}
		if over || err != nil || offer == nil {
			return err
		}
		report = keeper.OfferReport{ID: offer.ID}
		if report.Job, report.Error, err = submitter.SubmitOffer(ctx, o.id, *offer); err != nil {
			return err
		}
	}
}

// SubmitOffers watches a cluster until ctx ends and submits what its keeper offers. It does nothing where that cannot be: with neither elastic groups nor an early head, or
// where the launcher's nodes need no jobs.
func SubmitOffers(ctx context.Context, l Launcher, id ID, log *slog.Logger) {
	if _, able := As[Submitter](l); !able {
		return
	}
	offers := NewOffers(l, id, log)
	defer offers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	statuses, err := l.Watch(ctx, id)
	if err != nil {
		log.Debug("the cluster is not watched for jobs to submit", "cluster", id, "error", err)
		return
	}
	for s := range statuses {
		elastic := slices.ContainsFunc(s.Groups, runstate.Group.Elastic)
		if len(s.Groups) > 0 && !elastic && len(runstate.Of(s.Allocations, runstate.PurposeHead)) == 0 && len(runstate.Of(s.Allocations, runstate.PurposeMain)) > 0 {
			return
		}
		offers.See(ctx, s)
	}
}
