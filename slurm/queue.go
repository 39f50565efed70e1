package slurm

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// comment is what a job of ours carries: it names the launch, so that an answer of sbatch that was lost is found again.
func comment(name, hash, nonce string) string {
	return fmt.Sprintf("rayctl name=%s spec=%s nonce=%s", name, hash, nonce)
}

// nonceOf is the nonce in a comment; "" in others' comments.
func nonceOf(comment string) string {
	if !strings.HasPrefix(comment, "rayctl ") {
		return ""
	}
	_, rest, _ := strings.Cut(comment, " nonce=")
	nonce, _, _ := strings.Cut(rest, " ")
	return nonce
}

// queue is the last answer of the controller, shared by all clusters that are watched: one question for all.
type queue struct {
	site *site

	mu   sync.Mutex
	at   time.Time // of the answer
	jobs []Job
}

// Ages up to which an answer is good enough.
const (
	whileWaiting = 10 * time.Second // six questions a minute
	whileRunning = 30 * time.Second // two
	now          = time.Duration(0)
)

// ask returns the jobs as the controller knew them at most age ago. Whoever asks meanwhile gets the same answer.
func (q *queue) ask(ctx context.Context, age time.Duration) ([]Job, error) {
	asked := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.at.After(asked) || !q.at.IsZero() && time.Since(q.at) < age {
		return q.jobs, nil
	}
	began := time.Now()
	jobs, err := q.site.jobs(ctx)
	if err != nil {
		return nil, err
	}
	q.at, q.jobs = began, jobs
	return jobs, nil
}

// find returns the job of a launch, all its components together: a heterogeneous job holds nodes while one of them does.
func find(jobs []Job, nonce string) (Job, bool) {
	for _, j := range jobs {
		if nonceOf(j.Comment) != nonce || nonce == "" {
			continue
		}
		for _, other := range jobs {
			if j.HetJobID != 0 && other.HetJobID == j.HetJobID && other.ID != j.ID && !other.Ended() && j.Ended() {
				j.State, j.Flags = other.State, other.Flags
			}
		}
		return j, true
	}
	return Job{}, false
}
