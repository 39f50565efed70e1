//go:build linux

package agent

import (
	"io"
	"net/rpc"
	"os"
	"os/exec"
)

// Client is the parent's end of an agent.
type Client struct {
	*rpc.Client
}

// Start starts cmd, a copy of this program, as an agent.
func Start(cmd *exec.Cmd, log *os.File, start func(*exec.Cmd) error) (*Client, error) {
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = theirIn.Close(), theirOut.Close() }()
	cmd.Env = []string{agentEnv + "=1", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, log
	if err := start(cmd); err != nil {
		_, _ = ourIn.Close(), ourOut.Close()
		return nil, err
	}
	return &Client{rpc.NewClient(pipe{ourIn, ourOut})}, nil
}

type pipe struct {
	io.ReadCloser
	w io.WriteCloser
}

func (p pipe) Write(b []byte) (int, error) { return p.w.Write(b) }

func (p pipe) Close() error {
	_ = p.w.Close()
	return p.ReadCloser.Close()
}
