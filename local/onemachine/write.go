package onemachine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Write fills the run directory with the record and with what the keeper needs; the keeper gets those secrets that the record's spec names.
func (r *runDir) Write(record record, orders *keeper.Orders, secrets map[string]string) error {
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return err
	}
	if !spec.IsURI(orders.OutputDir) {
		if err := os.MkdirAll(orders.OutputDir, 0o755); err != nil {
			return launcher.Fail(runstate.CodeSpec, err, "choose another job.outputDir", "cannot make the output directory: %v", err)
		}
	}
	r.Record = record
	if err := writeJSON(r.Path(recordFile), r.Record); err != nil {
		return err
	}
	return r.Files.Prepare(orders, keeper.NewToken(), r.secrets(secrets))
}

// Accept replaces the record's cluster file.
func (r *runDir) Accept(s *spec.ClusterSpec) error {
	r.Record.Spec = s
	if err := writeJSON(r.Path(recordFile), r.Record); err != nil {
		return writeFailed(r.Dir, err)
	}
	return nil
}

func (r *runDir) secrets(values map[string]string) map[string]string {
	wanted := map[string]string{}
	for _, s := range r.Record.Spec.Secrets {
		wanted[s.Name] = values[s.Name]
	}
	return wanted
}

// Pack lets the client pack, puts the packages into the run directory, and returns the commit.
func (r *runDir) Pack(ctx context.Context, p launcher.Payload) (keeper.Commit, error) {
	var document keeper.Commit
	if p.Packages == nil {
		return document, nil
	}
	packages, err := p.Packages(ctx)
	if err != nil || packages == nil {
		return document, err
	}
	for _, f := range packages.Files {
		if err := place(f.Path, r.Path(orders.PackageName(f.URI))); err != nil {
			return document, writeFailed(r.Dir, err)
		}
	}
	return orders.Commit(packages)
}

// place links a file into the run directory, or copies it where a link is not possible.
func place(from, to string) error {
	if err := os.Link(from, to); err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open the package: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// hostName is this machine in an error; a home directory may be that of several.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "this machine"
	}
	return name
}

// writeFailed explains why rayctl cannot keep a cluster's files.
func writeFailed(dir string, err error) error {
	var known *launcher.ExitError
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return launcher.Fail(runstate.CodeStartFailed, err, "free some space, or set XDG_STATE_HOME to another disk", "no space is left for %s on %s", dir, hostName())
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return launcher.Fail(runstate.CodePermission, err, "set XDG_STATE_HOME to a directory you may write to", "not permitted to write %s: %v", dir, err)
	default:
		return launcher.Fail(runstate.CodeConfig, err, "set XDG_STATE_HOME to a directory you may write to", "cannot write %s: %v", dir, err)
	}
}
