// Package tsp is the launcher for a machine on which jobs wait in task-spooler, a queue for one machine (Debian's package task-spooler, whose program is tsp). Its
// clusters are like those of the local launcher, see package onemachine, but the nodes start only when the queue has a free slot, and keep the slot until the
// cluster ends.
package tsp

import (
	"context"
	"log/slog"
	"os/exec"
	"strings"
	"syscall"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/onemachine"
)

// Substrate is task-spooler as a launcher of rayctl.
var Substrate = launcher.Substrate{Substrate: clusterFile, New: func(s *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error) {
	socket := ""
	if section := sectionOf(s); section != nil {
		socket = section.Socket
	}
	return New(onemachine.Config{Logger: log}, socket)
}}

// New returns the launcher for the queue at a socket; "" is the user's own queue. It neither reads nor writes anything yet.
func New(c onemachine.Config, socket string) (*onemachine.Launcher, error) {
	return onemachine.New(c, queue{socket})
}

const program = "tsp"

// holdSlot prints a line when it has the slot, and keeps the slot until the keeper closes its standard input or dies.
const holdSlot = "echo granted; exec cat >/dev/null"

// queue is the substrate.
type queue struct{ socket string }

// Name is "tsp".
func (queue) Name() string { return name }

// StateSubdir keeps the clusters apart from those of the local launcher.
func (queue) StateSubdir() string { return name }

// command returns the command line that calls tsp for the socket.
func (q queue) command(arguments ...string) []string {
	argv := append([]string{program}, arguments...)
	if q.socket != "" {
		argv = append([]string{"env", "TS_SOCKET=" + q.socket}, argv...)
	}
	return argv
}

// Start tells the keeper how to get a slot: by a job with the cluster's name as its label, which holds the slot. tsp stays in the foreground (-f), and the job
// prints to tsp's own output (-n).
func (q queue) Start(name string) keeper.Start {
	return keeper.Start{Mode: keeper.StartQueue, Argv: q.command("-n", "-f", "-L", name, "sh", "-c", holdSlot)}
}

// Require starts the queue's server if none runs. A keeper must not start the server: when rayctl ends what a killed keeper left behind, it would end the server,
// too, and with it the jobs of all users of the queue.
func (q queue) Require(ctx context.Context) error {
	argv := q.command("-S")
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = onemachine.Environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		return launcher.Fail(runstate.CodeConfig, err, "install task-spooler (Debian's package), and check that `"+strings.Join(argv, " ")+"` works",
			"the queue of task-spooler cannot be used: %v", err)
	}
	return nil
}

// Check looks for the program.
func (queue) Check(ctx context.Context) []launcher.Check {
	c := launcher.Check{Name: "task-spooler", Hint: "install task-spooler (Debian's package)"}
	version, err := exec.CommandContext(ctx, program, "-V").Output()
	if err != nil {
		c.Detail = err.Error()
		return []launcher.Check{c}
	}
	c.OK, c.Detail = true, strings.TrimSpace(strings.SplitN(string(version), "\n", 2)[0])
	return []launcher.Check{c}
}
