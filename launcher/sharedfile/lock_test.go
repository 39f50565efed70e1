package sharedfile_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rayctl/rayctl/launcher/sharedfile"
)

func TestOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b", "é.lock")
	held, err := sharedfile.Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := sharedfile.Try(path); err != nil || other != nil {
		t.Fatalf("second holder: %v, %v", other, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sharedfile.Acquire(ctx, path); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	held.Release()
	again, err := sharedfile.Try(path)
	if err != nil || again == nil {
		t.Fatalf("after release: %v, %v", again, err)
	}
	again.Remove()
}

// After a holder removed the file, two others must not both hold the lock through two different files of the same path.
func TestRemoveKeepsItExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var inside atomic.Int32 // the race detector does not know the lock
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				l, err := sharedfile.Acquire(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d holders", n)
				}
				inside.Add(-1)
				l.Remove()
			}
		})
	}
	wg.Wait()
}
