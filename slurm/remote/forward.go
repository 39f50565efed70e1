package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/launcher/tail"
)

// Forward connects to an address as the host at the other end of ssh sees it (ssh -W).
func (s *SSH) Forward(ctx context.Context, address string) (net.Conn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the connection outlives who asked for it
	said := &tail.Tail{}
	cmd := exec.CommandContext(ctx, "ssh", append(s.options(), "-W", address, "--", s.Host)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, said
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start ssh: %w", err), ours.Close())
	}
	c := &forwarded{Conn: ours, cancel: cancel, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is seen by who reads
		cancel()
		close(c.ended)
	}()
	return c, nil
}

// closeTime is what a command gets to end after its input was closed.
const closeTime = 5 * time.Second

// forwarded is a connection that is a command's standard input and output.
type forwarded struct {
	net.Conn
	cancel context.CancelFunc
	once   sync.Once
	ended  chan struct{}
}

// Close ends the command; one that does not end is killed.
func (f *forwarded) Close() error {
	err := f.Conn.Close()
	f.once.Do(func() {
		kill := time.AfterFunc(closeTime, f.cancel)
		go func() {
			<-f.ended
			kill.Stop()
		}()
	})
	return err
}

// socketPair makes two connected sockets: one for us, one to be inherited.
func socketPair() (net.Conn, *os.File, error) {
	syscall.ForkLock.RLock() // no child may be forked before they are closed on exec, which not every system does at once
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(pair[0])
		syscall.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "ssh")
	defer mine.Close() // FileConn has a copy
	conn, err := net.FileConn(mine)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn, theirs, nil
}
