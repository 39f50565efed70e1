package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// write fills the run directory with what the keeper needs.
func (c *cluster) write(plan plan, p launcher.Payload) error {
	orders := plan.orders()
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if orders.Job != nil {
		if err := os.MkdirAll(orders.Job.OutputDir, 0o755); err != nil {
			return launcher.Fail(runstate.CodeSpec, err, "choose another job.outputDir", "cannot make the output directory: %v", err)
		}
	}
	c.record = record{
		Name: c.name, Owner: c.l.owner, Host: c.l.host, Mark: rand.Text(), Created: time.Now().UTC(), Labels: plan.spec.Labels,
		Command: p.Command, EnvDir: plan.env.Dir, Python: plan.env.Python, Spec: plan.spec,
	}
	if err := writeJSON(c.path(recordFile), c.record); err != nil {
		return err
	}
	return c.Prepare(orders, keeper.NewToken(), c.secrets(p.Secrets))
}

func (c *cluster) secrets(values map[string]string) map[string]string {
	wanted := map[string]string{}
	for _, s := range c.record.Spec.Secrets {
		wanted[s.Name] = values[s.Name]
	}
	return wanted
}

// pack lets the client pack, puts the packages into the run directory, and returns the commit.
func (c *cluster) pack(ctx context.Context, p launcher.Payload) (keeper.Commit, error) {
	var document keeper.Commit
	if p.Packages == nil {
		return document, nil
	}
	packages, err := p.Packages(ctx)
	if err != nil || packages == nil {
		return document, err
	}
	for _, f := range packages.Files {
		if err := place(f.Path, c.path(orders.PackageName(f.URI))); err != nil {
			return document, writeFailed(c.dir, err)
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

// link makes the mounts' paths on this machine: a symbolic link where nothing is there yet; what is there must be the source.
func link(mounts []spec.Mount, note func(string)) error {
	for _, m := range mounts {
		source := m.Source.Local
		if source == "" {
			return launcher.Fail(runstate.CodeSpec, nil, "add source.local to it", "the mount %s has no source on this machine", m.MountPath)
		}
		source, err := filepath.Abs(source)
		if err != nil || !isDir(source) {
			return launcher.Fail(runstate.CodeSpec, err, "make it, or correct source.local", "the source %s of the mount %s is no directory", source, m.MountPath)
		}
		if sameDir(source, m.MountPath) {
			continue
		}
		if err := os.Symlink(source, m.MountPath); err != nil {
			return launcher.Fail(runstate.CodeSpec, err, "make it a link to "+source+" yourself, or choose another mountPath",
				"the mount %s cannot be made: %v", m.MountPath, errors.Unwrap(err))
		}
		note(fmt.Sprintf("linked %s to %s", m.MountPath, source))
	}
	return nil
}

func sameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
