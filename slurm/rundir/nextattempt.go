package rundir

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// NextAttempt is why a job waits again after an attempt, according to the run's files: the batch system itself gives no reason.
type NextAttempt struct {
	Cause   string `json:"cause"`
	Message string `json:"message"`
	Told    bool   `json:"told"`    // the cause was recorded; else it is assumed
	Allowed bool   `json:"allowed"` // job.restarts has an attempt left for this cause
}

// NextAttempt reads the run's files for it.
func (r *Run) NextAttempt(ctx context.Context) (a NextAttempt, err error) {
	return a, r.Root.Files.Call(ctx, "again", map[string]any{"run": r.Dir}, &a)
}

// withdrawn is why rayctl cancelled a job that waited. It is written before the job is cancelled, so that no client takes the cancelled job for one that somebody else cancelled.
type withdrawn struct {
	Cause    string `json:"cause"`
	Message  string `json:"message"`
	Final    bool   `json:"final,omitempty"`
	Revision int64  `json:"revision"` // of the keeper's last document, 0 without one: a job that began after all and ended later was not withdrawn
}

// withdrawnFile stands in the directory of the attempt after which the job waited.
const withdrawnFile = "withdrawn"

// NoteWithdrawn notes why a waiting job is about to be cancelled.
func (r *Run) NoteWithdrawn(ctx context.Context, v runstate.Verdict) {
	note := withdrawn{Cause: v.Cause, Message: v.Message, Final: v.Final, Revision: r.revision()}
	if err := r.Root.Files.WriteJSON(ctx, path.Join(r.AttemptDir(), withdrawnFile), note, true); err != nil && !errors.Is(err, fs.ErrExist) {
		r.Root.log.Debug("it could not be noted why the job is cancelled", "cluster", r.Name, "error", err) // to end it does not need the disk
	}
}

// Withdrawn is why the waiting job was cancelled; nil: nobody noted it.
func (r *Run) Withdrawn(ctx context.Context) *runstate.Verdict {
	var note withdrawn
	file := path.Join(r.AttemptDir(), withdrawnFile)
	if files, err := r.Root.Files.Read(ctx, file); err == nil {
		if there, err := decode(files, file, &note); there && err == nil && note.Revision == r.revision() {
			return &runstate.Verdict{Cause: note.Cause, Message: note.Message, Final: note.Final}
		}
	}
	return nil
}

// revision is that of the keeper's last word, 0 without one.
func (r *Run) revision() int64 {
	if last := r.LastWord(); last != nil {
		return last.Revision
	}
	return 0
}
