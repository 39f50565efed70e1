package driverio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// RankFiles writes the bytes of each rank to a file of its own, and all else to another place.
type RankFiles struct {
	dir   string
	other io.Writer
	lines rankLines
	files map[int]*os.File
}

// NewRankFiles makes the directory, unless it is there, with files rank-N.log. prepares: the job has a job.prepare, whose output comes first.
func NewRankFiles(dir string, other io.Writer, prepares bool) (*RankFiles, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	return &RankFiles{dir: dir, other: other, lines: rankLines{rank: noRank, waitsForDriver: prepares}, files: map[int]*os.File{}}, nil
}

func (o *RankFiles) Write(p []byte) (int, error) {
	pending := map[int][]byte{}
	o.lines.read(p, func(rank int, data []byte) { pending[rank] = append(pending[rank], data...) })
	for rank, data := range pending {
		w, err := o.of(rank)
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// of is where the bytes of a rank go. A file that is there already is another run's: it is not changed.
func (o *RankFiles) of(rank int) (io.Writer, error) {
	if rank == noRank {
		return o.other, nil
	}
	if o.files[rank] == nil {
		f, err := os.OpenFile(filepath.Join(o.dir, fmt.Sprintf("rank-%d.log", rank)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return nil, err
		}
		o.files[rank] = f
	}
	return o.files[rank], nil
}

// Close ends the files, and writes the beginning of a line of which nobody knows whose it is.
func (o *RankFiles) Close() error {
	_, err := o.other.Write(o.lines.pending())
	errs := []error{err}
	for _, f := range o.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
