package local

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// salvage completes a dead keeper's copy of the driver's output by what the supervisor of the driver's node has saved beyond it
// (templates/keeper_rest.py), and says how much there is. Of what was not saved nobody knows the length.
func (c *cluster) salvage(job *runstate.Job) (*runstate.Log, error) {
	have := size(c.path(keeper.DriverLog))
	if job == nil || job.LogFile == "" {
		return &runstate.Log{Bytes: have}, nil
	}
	name := filepath.Base(job.LogFile)
	for _, dir := range c.logDirs() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			kind, ours := strings.CutPrefix(e.Name(), name+".")
			if !ours {
				continue
			}
			if taken, err := c.takeRest(filepath.Join(dir, e.Name()), kind, have); err != nil || taken {
				return &runstate.Log{Bytes: size(c.path(keeper.DriverLog))}, err
			}
		}
	}
	if job.State == runstate.JobWaiting || job.Terminal() {
		return &runstate.Log{Bytes: have}, nil
	}
	return &runstate.Log{Bytes: have, Missing: [][2]int64{{have, -1}}}, nil
}

// takeRest puts a rest behind the keeper's copy: "from-N", the log from byte N on, or in its place: "whole". false: it is neither.
func (c *cluster) takeRest(rest, kind string, have int64) (bool, error) {
	keep, skip := have, int64(0)
	if kind == "whole" {
		keep = 0
	} else {
		number, from := strings.CutPrefix(kind, "from-")
		begin, err := strconv.ParseInt(number, 10, 64)
		if skip = have - begin; !from || err != nil || skip < 0 || skip > size(rest) {
			return false, nil
		}
	}
	target := c.path(keeper.DriverLog)
	out, err := renameio.NewPendingFile(target, renameio.WithTempDir(c.dir), renameio.WithPermissions(0o600))
	if err != nil {
		return false, err
	}
	defer func() { _ = out.Cleanup() }() // after the replacement it does nothing
	if err := errors.Join(appendFile(out, target, 0, keep), appendFile(out, rest, skip, size(rest)-skip)); err != nil {
		return false, err
	}
	if err := out.CloseAtomicallyReplace(); err != nil {
		return false, err
	}
	if kind == "from-"+strconv.FormatInt(size(target), 10) {
		return true, nil
	}
	done := strings.TrimSuffix(rest, kind) + "from-" + strconv.FormatInt(size(target), 10) // empty: whoever comes next sees that there is nothing more
	return true, errors.Join(os.WriteFile(done, nil, 0o600), os.Remove(rest))
}

// appendFile copies n bytes of a file; one that is not there is empty.
func appendFile(out io.Writer, path string, begin, n int64) error {
	in, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(out, io.NewSectionReader(in, begin, n))
	return err
}
