package controller

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Many who watch one waiting job ask Slurm's scheduler once, also where it had no answer; another job is asked for by itself.
func TestPlansAreShared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers.json")
	var mu sync.Mutex
	asked := map[int]int{}
	start := time.Unix(1795253221, 0)
	watch := func(q *Queue, id int, age time.Duration) {
		got, err := q.Planned(t.Context(), id, age, func(context.Context) (time.Time, error) {
			mu.Lock()
			defer mu.Unlock()
			if asked[id]++; id == 2 {
				return time.Time{}, errors.New("refused")
			}
			return start, nil
		})
		if err == nil && id == 1 && !got.Equal(start) {
			t.Errorf("job %d would start at %s", id, got)
		}
	}
	var watchers sync.WaitGroup
	for range 10 {
		q := NewQueue(nil, file, slog.New(slog.DiscardHandler))
		for id := 1; id <= 2; id++ {
			watchers.Go(func() { watch(q, id, time.Hour) })
		}
	}
	watchers.Wait()
	if asked[1] != 1 || asked[2] != 1 {
		t.Errorf("asked: %v", asked)
	}
	alone := NewQueue(nil, "", slog.New(slog.DiscardHandler))
	watch(alone, 1, time.Hour)
	watch(alone, 1, time.Hour)
	if asked[1] != 2 {
		t.Errorf("without a file, asked: %v", asked)
	}
	watch(alone, 1, 0)
	if asked[1] != 3 {
		t.Errorf("when the plan is old, asked: %v", asked)
	}
}
