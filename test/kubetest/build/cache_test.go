package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestOnceFillsOnceAndOnlyWhole(t *testing.T) {
	t.Setenv("RAYCTL_TEST_CACHE", t.TempDir())
	broken := errors.New("broken off")
	if _, err := Once(t.Context(), "thing", func(_ context.Context, tmp string) error {
		return errors.Join(os.WriteFile(filepath.Join(tmp, "half"), nil, 0o644), broken)
	}); !errors.Is(err, broken) {
		t.Fatalf("got %v, want what the first attempt said", err)
	}
	var fills atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			dir, err := Once(t.Context(), "thing", func(_ context.Context, tmp string) error {
				fills.Add(1)
				return os.WriteFile(filepath.Join(tmp, "whole"), nil, 0o644)
			})
			if err != nil {
				t.Error(err)
			}
			files, err := os.ReadDir(dir)
			if err != nil || len(files) != 1 || files[0].Name() != "whole" {
				t.Errorf("the directory has %v (%v)", files, err)
			}
		})
	}
	all.Wait()
	if fills.Load() != 1 {
		t.Errorf("it was filled %d times", fills.Load())
	}
}
