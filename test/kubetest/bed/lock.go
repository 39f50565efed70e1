package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
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
