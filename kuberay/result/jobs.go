package result

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
)

// KeptJobs finds what the record has of jobs that were submitted to a cluster without a job of its own; nil: nothing.
func KeptJobs(c *api.Client, o *observe.Snapshot, st *State) *launcher.KeptJobs {
	p := recordPod(o)
	if p == nil || st == nil || !st.Jobs {
		return nil
	}
	return &launcher.KeptJobs{Dirs: []string{""}, Open: func(ctx context.Context, path string) (io.ReadCloser, error) {
		r, err := streamOf(ctx, c, p.Name)
		if err != nil {
			return nil, err
		}
		file, err := jobsFile(r, path)
		if err != nil {
			r.Close()
			return nil, err
		}
		return limited{file, r}, nil
	}}
}

// jobsFile finds a file among what the record prints of submitted jobs: a line with a hint, and a .tar.gz in base64 (show_jobs in kubernetes/record.py). fs.ErrNotExist: it is not there.
func jobsFile(r io.Reader, name string) (io.Reader, error) {
	lines := bufio.NewReader(r)
	if _, err := lines.ReadString('\n'); err != nil {
		return nil, damaged(err)
	}
	packed, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, lines))
	if err != nil {
		return nil, damaged(err)
	}
	files := tar.NewReader(packed)
	for {
		header, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		case err != nil:
			return nil, damaged(err)
		case header.Name == name:
			return files, nil
		}
	}
}

func damaged(err error) error {
	return fmt.Errorf("what the record has of submitted jobs is damaged: %w", err)
}
