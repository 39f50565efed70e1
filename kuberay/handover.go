package kuberay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"github.com/rayctl/rayctl/kuberay/transport"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// notTold is the error of a launch that could not send something to its keeper.
func notTold(err error, format string, args ...any) error {
	if errors.Is(err, keeper.ErrNotPermitted) {
		return launcher.Fail(runstate.CodePermission, err, transport.RoleHint, format, args...)
	}
	return launcher.Fail(runstate.CodeUnreachable, err, "try again", format, args...)
}

// packPayload makes the packages of a launch, which may have none.
func packPayload(ctx context.Context, pay launcher.Payload) (*launcher.Packages, error) {
	if pay.Packages == nil {
		return &launcher.Packages{}, nil
	}
	packages, err := pay.Packages(ctx)
	if packages == nil {
		packages = &launcher.Packages{}
	}
	return packages, err
}

// sendPackages streams the packages to the keeper's disk.
func sendPackages(ctx context.Context, k *keeper.Client, packages *launcher.Packages, pay launcher.Payload) error {
	for _, f := range packages.Files {
		if err := sendFile(ctx, k, f, pay); err != nil {
			return err
		}
	}
	return nil
}

// sendTries is how often a package is sent from its beginning when the way to the keeper is cut.
const sendTries = 4

func sendFile(ctx context.Context, k *keeper.Client, f launcher.PackageFile, pay launcher.Payload) error {
	for try := 1; ; try++ {
		sent := &launcher.Meter{Progress: launcher.Progress{Text: "uploading " + path.Base(f.Path), Total: f.Size}, Report: pay.Progress}
		file, err := os.Open(f.Path)
		if err != nil {
			return fmt.Errorf("open the package: %w", err)
		}
		err = k.PutPackage(ctx, orders.PackageName(f.URI), f.Size, sent.Reader(file))
		file.Close()
		var refused *keeper.Error
		if err == nil || errors.As(err, &refused) || errors.Is(err, keeper.ErrNotPermitted) || try == sendTries || !sleep.For(ctx, time.Duration(try)*time.Second/2) {
			return err
		}
	}
}

const (
	// keeperPatience is how long a keeper's container may take from running to answering.
	keeperPatience = time.Minute
	// firstPause is about half of what it takes as a rule. Each try costs the API server a connection to the kubelet.
	firstPause = 300 * time.Millisecond
)

// untilAnswered repeats a call that failed because nobody listens yet, or the way broke; other refusals are final.
func untilAnswered(ctx context.Context, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, keeperPatience)
	defer cancel()
	pause := firstPause
	for {
		err := call()
		var refused *keeper.Error
		if err == nil || errors.As(err, &refused) || errors.Is(err, keeper.ErrNotPermitted) || errors.Is(err, launcher.ErrNotFound) || launcher.ExitCode(err) == runstate.CodePermission {
			return err
		}
		if !sleep.For(ctx, pause) {
			return err
		}
		pause = min(pause*3/2, time.Second)
	}
}

// withPacked is the payload with its packages made, once.
func withPacked(pay launcher.Payload, packages *launcher.Packages) launcher.Payload {
	pay.Packages = func(context.Context) (*launcher.Packages, error) { return packages, nil }
	return pay
}
