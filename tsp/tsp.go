// Package tsp is the launcher for machines whose work goes through task-spooler, a queue of one machine (Debian's package of that name, its program is tsp). A
// cluster is as the local launcher's, see package onemachine; its nodes start when the queue has a free slot, and keep it until the cluster ends.
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
	"github.com/rayctl/rayctl/tsp/tspspec"
)

// Substrate is task-spooler as a launcher of rayctl.
var Substrate = launcher.Substrate{Substrate: tspspec.Substrate, New: func(s *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error) {
	socket := ""
	if section := tspspec.Of(s); section != nil {
		socket = section.Socket
	}
	return New(onemachine.Config{Logger: log}, socket)
}}

// New returns the launcher for the queue at a socket; "" is the user's own. It touches nothing yet.
func New(c onemachine.Config, socket string) (*onemachine.Launcher, error) {
	return onemachine.New(c, queue{socket})
}

const program = "tsp"

// holdSlot prints a line when it has the slot, and keeps the slot until the keeper closes its standard input or dies.
const holdSlot = "echo granted; exec cat >/dev/null"

// queue is the substrate.
type queue struct{ socket string }

// Name is "tsp".
func (queue) Name() string { return tspspec.Name }

// StateSubdir keeps the clusters apart from those of the local launcher.
func (queue) StateSubdir() string { return tspspec.Name }

// command is a call of tsp for the socket.
func (q queue) command(arguments ...string) []string {
	argv := append([]string{program}, arguments...)
	if q.socket != "" {
		argv = append([]string{"env", "TS_SOCKET=" + q.socket}, argv...)
	}
	return argv
}

// Start queues a job that holds the slot, labelled with the name. It stays in the foreground (-f), and its output comes from there (-n).
func (q queue) Start(name string) keeper.Start {
	return keeper.Start{Mode: keeper.StartQueue, Argv: q.command("-n", "-f", "-L", name, "sh", "-c", holdSlot)}
}

// Require starts the queue's server if none runs. It must not be started by a keeper: whoever ends what a killed keeper left would end the server too, with
// everybody's jobs.
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
