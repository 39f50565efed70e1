// Package sharedfile has what processes of one machine need to share files: replacing a file as a whole, and locks. The kernel drops a lock when its holder dies, so a
// killed rayctl blocks no other process.
package sharedfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Lock is a held lock.
type Lock struct{ file *os.File }

// retryEvery is how often a waiting Acquire tries again: a blocking flock(2) cannot be cancelled.
const retryEvery = 20 * time.Millisecond

// Acquire waits until no other process holds the lock of this path. It makes the file's directory.
func Acquire(ctx context.Context, path string) (*Lock, error) {
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for {
		l, err := Try(path)
		if err != nil || l != nil {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// Try acquires the lock without waiting. It returns nil without an error when another process holds the lock.
func Try(path string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			return nil, nil
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !current(f, path) { // its last holder removed the file meanwhile
		f.Close()
		return nil, nil
	}
	return &Lock{file: f}, nil
}

// current reports whether path still names the locked file.
func current(f *os.File, path string) bool {
	locked, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(locked, named)
}

// File is the locked file. A child process that inherits it also holds the lock, and keeps it when this process is killed.
func (l *Lock) File() *os.File { return l.file }

// Release drops the lock.
func (l *Lock) Release() { l.file.Close() }

// Remove drops the lock and removes its file.
func (l *Lock) Remove() {
	os.Remove(l.file.Name())
	l.file.Close()
}
