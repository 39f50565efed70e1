package onemachine

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

// outputPart is the part of a file from a byte on.
type outputPart struct {
	path       string
	from, size int64
}

// savedOutput is what there is of the output of a driver whose keeper is dead. whole: that is all there was.
type savedOutput struct {
	parts []outputPart
	rest  string // the file of the last part, where the supervisor of the driver's node has saved more than the keeper; "": it has not
	whole bool
}

// Log describes the saved output. The length of the part that was not saved is unknown.
func (o *savedOutput) Log() *runstate.Log {
	size := o.size()
	if o.whole {
		return &runstate.Log{Bytes: size}
	}
	return &runstate.Log{Bytes: size, Missing: [][2]int64{{size, -1}}}
}

func (o *savedOutput) size() (n int64) {
	for _, p := range o.parts {
		n += p.size
	}
	return n
}

// openRunDir opens the output from a byte on.
func (o *savedOutput) Open(offset int64) (io.ReadCloser, error) {
	var all multiFile
	for _, p := range o.parts {
		if offset >= p.size {
			offset -= p.size
			continue
		}
		f, err := os.Open(p.path)
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all.files = append(all.files, f)
		all.readers = append(all.readers, io.NewSectionReader(f, p.from+offset, p.size-offset))
		offset = 0
	}
	all.Reader = io.MultiReader(all.readers...)
	return &all, nil
}

// multiFile is the parts of several files, one after the other.
type multiFile struct {
	io.Reader
	readers []io.Reader
	files   []*os.File
}

// Close closes them all.
func (m *multiFile) Close() error {
	var failures []error
	for _, f := range m.files {
		failures = append(failures, f.Close())
	}
	return errors.Join(failures...)
}

// Saved finds the output of a dead keeper's driver: the keeper's copy, and what the supervisor of the driver's node has saved beyond it
// (keeper/rayctl_keeper/node/files/rest.py).
func (r *runDir) Saved(job *runstate.Job) (*savedOutput, error) {
	target := r.Path(keeper.DriverLog)
	o := &savedOutput{parts: []outputPart{{target, 0, fileSize(target)}}, whole: job == nil || job.LogFile == ""}
	if o.whole {
		return o, nil
	}
	name := filepath.Base(job.LogFile)
	for _, dir := range r.logDirs() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if kind, ours := strings.CutPrefix(e.Name(), name+"."); ours && o.take(filepath.Join(dir, e.Name()), kind, max(0, job.LogBegin)) {
				return o, nil
			}
		}
	}
	o.whole = job.State == runstate.JobWaiting && !job.Preparing() || job.Terminal()
	return o, nil
}

// take puts a rest behind the keeper's copy: "from-N", the log from byte N on, or in its place: "whole". It returns false for a file of another kind, and for one that leaves a gap.
// The first bytes of the copy are job.prepare's, and before that log.
func (o *savedOutput) take(rest, kind string, before int64) bool {
	there := fileSize(rest)
	if kind == "whole" {
		o.parts[0].size = min(o.parts[0].size, before)
		o.parts, o.rest, o.whole = append(o.parts, outputPart{rest, 0, there}), rest, true
		return true
	}
	number, from := strings.CutPrefix(kind, "from-")
	begin, err := strconv.ParseInt(number, 10, 64)
	skip := o.size() - before - begin
	if !from || err != nil || skip < 0 || skip > there {
		return false
	}
	o.parts, o.rest, o.whole = append(o.parts, outputPart{rest, skip, there - skip}), rest, true
	return true
}

// salvage makes the keeper's copy of what was saved.
func (r *runDir) salvage(job *runstate.Job) (*runstate.Log, error) {
	o, err := r.Saved(job)
	if err != nil {
		return nil, err
	}
	if o.rest == "" {
		return o.Log(), nil
	}
	target := r.Path(keeper.DriverLog)
	out, err := renameio.NewPendingFile(target, renameio.WithTempDir(r.Dir), renameio.WithPermissions(0o600))
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Cleanup() }() // after the replacement it does nothing
	for _, p := range o.parts {
		if err := appendFile(out, p.path, p.from, p.size); err != nil {
			return nil, err
		}
	}
	if err := out.CloseAtomicallyReplace(); err != nil {
		return nil, err
	}
	// Empty: whoever comes next sees that there is nothing more.
	done := filepath.Join(filepath.Dir(o.rest), filepath.Base(job.LogFile)+".from-"+strconv.FormatInt(fileSize(target)-max(0, job.LogBegin), 10))
	if done == o.rest {
		return o.Log(), nil
	}
	return o.Log(), errors.Join(os.WriteFile(done, nil, 0o600), os.Remove(o.rest))
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

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
