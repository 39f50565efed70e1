package rundir

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"path"
	"strconv"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// SavedOutput is the saved part of the driver's output. The length of the part that was not saved is unknown.
type SavedOutput struct {
	Parts []outputPart `json:"parts"`
	Whole bool         `json:"whole"`
}

// Log describes it.
func (o *SavedOutput) Log(job *runstate.Job) *runstate.Log {
	size := int64(0)
	for _, p := range o.Parts {
		size += p.size
	}
	if o.Whole || job == nil || job.State == runstate.JobWaiting && !job.Preparing() || job.Terminal() {
		return &runstate.Log{Bytes: size}
	}
	return &runstate.Log{Bytes: size, Missing: [][2]int64{{size, -1}}}
}

// KeptOutput is the output that a keeper has saved itself: one file.
func (r *Run) KeptOutput() *SavedOutput {
	return &SavedOutput{Parts: []outputPart{{path: path.Join(r.AttemptDir(), keeper.DriverLog)}}}
}

// Saved finds the output of a cluster whose keeper is dead: the keeper's copy, and what the node has saved beyond it. complete also makes one file of it.
func (r *Run) Saved(ctx context.Context, job *runstate.Job, complete bool) (*SavedOutput, error) {
	op, name, begin := "saved", "", int64(0)
	if complete {
		op = "salvage"
	}
	if job != nil {
		name, begin = job.LogFile, job.LogBegin
	}
	var o SavedOutput
	if err := r.Root.Files.Call(ctx, op, map[string]any{"attempt": r.AttemptDir(), "log": name, "begin": begin}, &o); err != nil {
		if complete {
			return nil, r.WriteFailed(err)
		}
		return nil, r.Root.Unreachable(err)
	}
	return &o, nil
}

// outputPart is the part of a file from a byte on.
type outputPart struct {
	path       string
	from, size int64
}

// UnmarshalJSON reads [path, from, size].
func (p *outputPart) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&p.path, &p.from, &p.size})
}

// LogInfo returns where the saved output is, and how much of it there is.
func (r *Run) LogInfo(ctx context.Context, st *runstate.State) launcher.LogInfo {
	info := launcher.LogInfo{Path: path.Join(r.AttemptDir(), keeper.DriverLog)}
	if st.Log != nil {
		info.Bytes, info.Missing = st.Log.Bytes, st.Log.Missing
	}
	if kind, err := r.Root.Files.Kind(ctx, info.Path); err != nil || kind == "" {
		info.Path = "" // the driver never ran
	}
	return info
}

// Opener opens the saved output of an attempt: the last is driver.log, or what is to become it; earlier ones have files of their own, which each keeper
// gets from the one before.
func (r *Run) Opener(st *runstate.State, last *SavedOutput) launcher.LogOpener {
	return func(ctx context.Context, attempt int, offset int64) (io.ReadCloser, error) {
		parts := last.Parts
		if attempt != 0 && attempt != st.Attempt {
			parts = []outputPart{{path: path.Join(r.AttemptDir(), keeper.AttemptLog(attempt))}}
		}
		var readers []io.Reader
		for i, p := range parts {
			if i < len(parts)-1 && offset >= p.size { // the last one's size may not be known
				offset -= p.size
				continue
			}
			readers = append(readers, r.Root.Files.Reader(ctx, p.path, p.from+offset))
			offset = 0
		}
		return io.NopCloser(io.MultiReader(readers...)), nil
	}
}

// KeptJobs is what is kept of jobs that others submitted, in each attempt.
func (r *Run) KeptJobs() *launcher.KeptJobs {
	last, _ := strconv.Atoi(path.Base(r.AttemptDir())) // a directory that is no number has none before it
	k := &launcher.KeptJobs{Dirs: []string{r.AttemptDir()}, Open: func(ctx context.Context, file string) (io.ReadCloser, error) {
		kind, err := r.Root.Files.Kind(ctx, file)
		if err == nil && kind != "file" {
			err = fs.ErrNotExist
		}
		if err != nil {
			return nil, r.Root.Unreachable(err)
		}
		return io.NopCloser(r.Root.Files.Reader(ctx, file, 0)), nil
	}}
	for n := last - 1; n > 0; n-- {
		k.Dirs = append(k.Dirs, r.Path(strconv.Itoa(n)))
	}
	return k
}
