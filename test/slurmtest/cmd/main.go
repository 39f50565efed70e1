//go:build linux

// Command cmd starts the testbed's Slurm cluster and leaves it running until it is interrupted (make slurm).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/rayctl/rayctl/test/slurmtest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "slurm:", err)
		os.Exit(1)
	}
}

func run() error {
	o := slurmtest.Options{}
	gpus := flag.Int("gpus", 0, "h100 GPUs of each node (links to /dev/null)")
	users := flag.String("users", "", "further Linux users, comma-separated; needs root")
	flag.StringVar(&o.Version, "version", slurmtest.DefaultVersion, "Slurm version: 22.05, 24.11 or 26.05")
	flag.IntVar(&o.Nodes, "nodes", 4, "number of nodes")
	flag.BoolVar(&o.Accounting, "accounting", false, "slurmdbd with MariaDB")
	flag.BoolVar(&o.Preemption, "preemption", false, "partition high preempts main")
	flag.BoolVar(&o.Slurmrestd, "rest", false, "slurmrestd with JWT")
	flag.BoolVar(&o.LoginSSH, "ssh", false, "login nodes with sshd")
	flag.BoolVar(&o.MetadataFreeze, "freeze", false, "connections out of the cluster hang instead of failing")
	flag.BoolVar(&o.NFS, "nfs", false, "homes and shared/ by NFSv3 with root_squash; needs root")
	flag.Parse()
	if *gpus > 0 {
		o.GPUs = []slurmtest.GPU{{Type: "h100", Count: *gpus}}
	}
	if *users != "" {
		o.Users = strings.Split(*users, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	cluster, err := slurmtest.New(ctx, o)
	if err != nil {
		return err
	}
	fmt.Println(cluster.Describe())
	<-ctx.Done()
	return cluster.Close()
}
