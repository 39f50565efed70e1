package onemachine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/trust"
)

// Examine hands over the run directory.
func (l *Launcher) Examine(ctx context.Context, id launcher.ID, found launcher.Evidence) {
	c, err := l.open(id)
	if err != nil {
		found.Missing("run", err)
		return
	}
	found.Spec(c.run.Record.Spec)
	x := launcher.RunExaminer{Files: ownFiles{}, Found: found}
	_ = x.Some(ctx, c.run.Dir, "run", recordFile, errFile) && x.Attempt(ctx, c.run.Dir, "run")
}

// ownFiles are files of this machine.
type ownFiles struct{}

// Names lists a directory.
func (ownFiles) Names(_ context.Context, dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// End reads the end of a file.
func (ownFiles) End(_ context.Context, path string, limit int) ([]byte, int64, error) {
	file, err := trust.Open(path, uint32(os.Geteuid()))
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	text, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-int64(limit)), int64(limit)))
	return text, info.Size(), err
}
