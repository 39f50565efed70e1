// Command kubetest runs the Kubernetes testbed by hand: `make kubernetes` is `kubetest up`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/test/kubetest/bed"
	"github.com/rayctl/rayctl/test/kubetest/build"
)

func main() { os.Exit(execute()) }

func execute() (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := root().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "kubetest:", err)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 1
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func root() *cobra.Command {
	cmd := &cobra.Command{Use: "kubetest", Short: "A real Kubernetes with KubeRay and Volcano as plain processes", SilenceErrors: true, SilenceUsage: true}
	cmd.AddCommand(buildCommand(), upCommand(), downCommand(), runCommand(), statusCommand(), reapCommand())
	return cmd
}

func buildCommand() *cobra.Command {
	kwok, guests := false, false
	cmd := &cobra.Command{
		Use: "build", Short: "Build everything that is not in the cache", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			versions, err := build.Chosen()
			if err != nil {
				return err
			}
			group, ctx := errgroup.WithContext(cmd.Context())
			group.Go(func() error {
				_, err := build.All(ctx, versions, kwok)
				return err
			})
			if guests {
				group.Go(func() error { return build.Guests(ctx) })
			}
			group.Go(func() error {
				python, err := build.Python(ctx, say)
				if err == nil {
					_, err = build.RayImage(ctx, python)
				}
				return err
			})
			return group.Wait()
		},
	}
	cmd.Flags().BoolVar(&guests, "guests", true, "also Kueue, Kyverno and Gatekeeper, which only tests of make test-rest use")
	cmd.Flags().BoolVar(&kwok, "kwok", true, "also KWOK, for simulated nodes")
	return cmd
}

func upCommand() *cobra.Command {
	config := bed.Config{Volcano: true}
	batch := false
	cmd := &cobra.Command{
		Use: "up", Short: "Start the testbed, or change it, and leave it running", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if config.Versions, err = build.Chosen(); err != nil {
				return err
			}
			if config.Python == "" {
				if config.Python, err = build.Python(cmd.Context(), say); err != nil {
					return err
				}
			}
			if batch {
				config.OperatorFlags = append(config.OperatorFlags, bed.BatchSchedulerFlag)
			}
			return locked(cmd.Context(), func(b *bed.Bed) error {
				if err := b.Up(cmd.Context(), config); err != nil {
					return err
				}
				fmt.Printf("export KUBECONFIG=%s\n", b.Kubeconfig())
				return b.Keep(true)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&config.Python, "python", "", "an interpreter with Ray, from whose environment the image rayproject/ray is made (default: the one of the examples)")
	f.IntVar(&config.CPUs, "cpus", bed.DefaultCPUs, "CPUs that the real node reports")
	f.IntVar(&config.GPUs, "gpus", 0, "GPUs that the real node advertises")
	f.IntVar(&config.Simulated.Nodes, "simulated", 0, "number of simulated nodes")
	f.IntVar(&config.Simulated.CPUs, "simulated-cpus", 64, "CPUs of each")
	f.IntVar(&config.Simulated.GPUs, "simulated-gpus", 8, "GPUs of each")
	f.BoolVar(&config.Volcano, "volcano", true, "with Volcano")
	f.BoolVar(&batch, "batch-scheduler", false, "run the operator with --batch-scheduler=volcano")
	f.StringArrayVar(&config.OperatorFlags, "operator-flag", nil, "a further flag of the operator")
	return cmd
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use: "down", Aliases: []string{"clean"}, Short: "End the testbed and remove what it or a killed one has left", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return down(cmd.Context()) },
	}
}

func down(ctx context.Context) error {
	return locked(ctx, func(b *bed.Bed) error {
		if err := b.Down(ctx); err != nil {
			return err
		}
		if left := b.Leftovers(); len(left) > 0 {
			return fmt.Errorf("left on the machine: %s", strings.Join(left, ", "))
		}
		return nil
	})
}

func runCommand() *cobra.Command {
	return &cobra.Command{
		Use: "run -- COMMAND...", Short: "Run a command that may use the testbed; afterwards it is removed, unless `up` had started it", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := bed.Open(say)
			if err != nil {
				return err
			}
			kept := b.Kept()
			child := exec.CommandContext(cmd.Context(), args[0], args[1:]...)
			child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
			child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
			err = child.Run()
			if kept {
				return err
			}
			return errors.Join(err, down(context.WithoutCancel(cmd.Context())))
		},
	}
}

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show what is there of the testbed", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b, err := bed.Open(say)
			if err != nil {
				return err
			}
			for _, thing := range b.Leftovers() {
				fmt.Println(thing)
			}
			return nil
		},
	}
}

func reapCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reap", Short: "Take the testbed down once nobody uses it", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := bed.Open(say)
			if err != nil {
				return err
			}
			return b.Reap(cmd.Context())
		},
	}
}

// locked runs do while no other process uses the testbed.
func locked(ctx context.Context, do func(*bed.Bed) error) error {
	b, err := bed.Open(say)
	if err != nil {
		return err
	}
	unlock, err := b.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return do(b)
}
