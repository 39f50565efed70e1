package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/test/once"
)

var errInUse = errors.New("the testbed is in use")

// Lock makes the caller the testbed's only user, after an earlier user has ended. unlock or the end of the process release it.
func (b *Bed) Lock(ctx context.Context) (unlock func(), err error) {
	told := false
	err = Until(ctx, func(context.Context) error {
		unlock, err = b.tryLock()
		if err != nil && !errors.Is(err, errInUse) {
			return permanent{err}
		}
		if err != nil && !told {
			told = true
			b.log("waiting: %v", err)
		}
		return err
	})
	return unlock, err
}

func (b *Bed) tryLock() (unlock func(), err error) {
	f, err := os.OpenFile(b.Dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the testbed: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		user, _ := os.ReadFile(f.Name())
		return nil, errors.Join(fmt.Errorf("%w by %s", errInUse, user), f.Close())
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(f, "process %d (%s)", os.Getpid(), filepath.Base(os.Args[0]))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the testbed: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

const reaper Part = "reaper"

// idleTime is how long a testbed stays without a user.
const idleTime = 2 * time.Minute

// SpawnReaper starts the process that takes an unused testbed down after a while, unless it exists already. The caller holds
// the lock.
func (b *Bed) SpawnReaper(ctx context.Context) error {
	if b.find(reaper) != nil {
		return nil
	}
	program := b.path("tmp", string(reaper))
	if err := once.Program(ctx, "github.com/rayctl/rayctl/test/kubetest/cmd", program); err != nil {
		return fmt.Errorf("building the testbed's reaper: %w", err)
	}
	_, err := b.spawn(reaper, command{
		argv: []string{program, "reap"},
		env:  []string{"RAYCTL_KUBE_DIR=" + b.Dir, "RAYCTL_TEST_CACHE=" + filepath.Dir(b.cache)},
	})
	if err != nil {
		return fmt.Errorf("starting the testbed's reaper: %w", err)
	}
	return nil
}

// Reap waits until the testbed was unused for a while, and takes it down. It returns at once if the testbed is to be kept.
func (b *Bed) Reap(ctx context.Context) error {
	for {
		unlock, err := b.Lock(ctx) // waits for the last user
		if err != nil {
			return err
		}
		unlock()
		if free, err := b.staysFree(ctx); err != nil || !free {
			if err != nil {
				return err
			}
			continue
		}
		unlock, err = b.Lock(ctx)
		if err != nil {
			return err
		}
		defer unlock()
		if b.Kept() {
			return nil
		}
		return b.Down(ctx)
	}
}

// staysFree watches for a new user.
func (b *Bed) staysFree(ctx context.Context) (bool, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for end := time.Now().Add(b.idle); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
		}
		unlock, err := b.tryLock()
		if errors.Is(err, errInUse) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		unlock()
	}
	_, err := os.Stat(b.Dir)
	return err == nil, err
}
