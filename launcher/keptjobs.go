package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// KeptJobs is what is kept of the jobs that were submitted to a cluster, after its end: Ray's last records of them, by the keeper, and their output, by the supervisors
// of the nodes on which they ran or, where these share no files with the keeper, by the keeper.
type KeptJobs struct {
	// Dirs are the keeper's run directories, that of the last attempt first.
	Dirs []string
	// Open opens a file; fs.ErrNotExist.
	Open func(ctx context.Context, path string) (io.ReadCloser, error)
}

// List returns Ray's last records of the jobs, the newest first; none if no job was submitted. A job that ran when the cluster was lost has failed.
func (k *KeptJobs) List(ctx context.Context) ([]dashboardclient.Job, error) {
	if k == nil {
		return nil, nil
	}
	var all []dashboardclient.Job
	for _, dir := range k.Dirs {
		file, err := k.Open(ctx, path.Join(dir, keeper.SubmissionsFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var some []dashboardclient.Job
		err = errors.Join(json.NewDecoder(file).Decode(&some), file.Close())
		if err != nil {
			return nil, Fail(runstate.CodeInternal, err, "remove it", "%s is damaged: %v", path.Join(dir, keeper.SubmissionsFile), err)
		}
		all = append(all, some...)
	}
	for i := range all {
		if !all[i].Status.Terminal() { // the keeper has not seen its end
			all[i].Status, all[i].Message = dashboardclient.JobFailed, "its cluster ended while it ran"
		}
	}
	slices.SortStableFunc(all, func(a, b dashboardclient.Job) int { return b.StartTime.Compare(a.StartTime) })
	return all, nil
}

// Output opens a job's output with Ray's own lines; fs.ErrNotExist: none is kept. Of a long one there are beginning and end, and a line between them that says what is left out. cut: only
// the end is kept, of a cluster of an earlier rayctl.
func (k *KeptJobs) Output(ctx context.Context, submissionID string) (output io.ReadCloser, cut bool, err error) {
	if k == nil || submissionID == "" || strings.ContainsAny(submissionID, "/\x00") { // Ray takes such ids, but cannot make a log file for them
		return nil, false, fs.ErrNotExist
	}
	for _, dir := range k.Dirs {
		for _, suffix := range []string{".log", ".end"} {
			output, err := k.Open(ctx, path.Join(dir, keeper.JobsDir, submissionID+suffix))
			if !errors.Is(err, fs.ErrNotExist) {
				return output, suffix == ".end", err
			}
		}
	}
	return nil, false, fmt.Errorf("the output of job %s: %w", submissionID, fs.ErrNotExist)
}
