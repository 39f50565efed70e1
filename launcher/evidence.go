package launcher

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
)

// EvidenceLimit is how much is kept of one text: its end.
const EvidenceLimit = 2 << 20

// Evidence takes what launchers have of a cluster. It removes secrets from texts itself.
type Evidence interface {
	// UsersOutput reports whether output of the user's programs is wanted.
	UsersOutput() bool
	// Add takes a text, or its end, and the size of all of it. The name is a path of the launcher's choice; parts that others have chosen may be anything.
	// It returns false if no further text is wanted.
	Add(name string, text []byte, size int64) bool
	// Missing notes why something cannot be had. nil, and an error that says that it does not exist, are no reason: nothing is noted.
	Missing(what string, err error)
	// Secret takes values that may be in no text.
	Secret(values ...string)
	// Spec takes the cluster file as it was launched.
	Spec(s *spec.ClusterSpec)
}

// AddJSON hands over a document.
func AddJSON(found Evidence, name string, document any) bool {
	text, err := json.Marshal(document)
	if err != nil {
		found.Missing(name, err)
		return true
	}
	return found.Add(name, text, int64(len(text)))
}

// RunFiles reads the files of a run, wherever they are.
type RunFiles interface {
	// Names lists a directory; none if there is none.
	Names(ctx context.Context, dir string) ([]string, error)
	// End reads the last bytes of a regular file, at most limit, and returns its size. It follows no link and waits for no writer of a pipe.
	End(ctx context.Context, file string, limit int) (text []byte, size int64, err error)
}

// RunExaminer hands over files of a run.
type RunExaminer struct {
	Files RunFiles
	Found Evidence
}

// Attempt hands over a keeper's run directory below a name: its documents and its log, what was saved of its nodes' logs, and the values of its secrets. It does not
// hand over the driver's log.
func (x RunExaminer) Attempt(ctx context.Context, dir, as string) bool {
	names, err := x.Files.Names(ctx, dir)
	if err != nil {
		x.Found.Missing(as, err)
		return true
	}
	for _, name := range names {
		if keeper.IsSecret(name) {
			x.secrets(ctx, path.Join(dir, name))
		}
	}
	documents := []string{keeper.StateFile, keeper.ResultFile, keeper.OrdersFile, keeper.KeeperLog, keeper.CommitFile, keeper.SubmissionsFile}
	more := slices.DeleteFunc(documents, func(name string) bool { return !slices.Contains(names, name) })
	return x.Some(ctx, dir, as, more...) && x.outputOfJobs(ctx, dir, as) && x.nodes(ctx, path.Join(dir, keeper.NodesDir), path.Join(as, keeper.NodesDir))
}

// Some hands over these files of a directory, but none that exists to hold a secret.
func (x RunExaminer) Some(ctx context.Context, dir, as string, names ...string) bool {
	for _, name := range names {
		if keeper.IsSecret(name) {
			continue
		}
		to := path.Join(as, strings.ReplaceAll(name, "/", "_"))
		text, size, err := x.Files.End(ctx, path.Join(dir, name), EvidenceLimit)
		if err != nil {
			x.Found.Missing(to, err)
		} else if !x.Found.Add(to, text, size) {
			return false
		}
	}
	return true
}

// all hands over the files of a directory.
func (x RunExaminer) all(ctx context.Context, dir, as string, wanted func(name string) bool) bool {
	names, err := x.Files.Names(ctx, dir)
	if err != nil {
		x.Found.Missing(as, err)
		return true
	}
	return x.Some(ctx, dir, as, slices.DeleteFunc(names, func(name string) bool { return !wanted(name) })...)
}

func (x RunExaminer) outputOfJobs(ctx context.Context, dir, as string) bool {
	return !x.Found.UsersOutput() || x.all(ctx, path.Join(dir, keeper.JobsDir), path.Join(as, keeper.JobsDir), func(string) bool { return true })
}

// nodes hands over the logs of each node.
func (x RunExaminer) nodes(ctx context.Context, dir, as string) bool {
	nodes, err := x.Files.Names(ctx, dir)
	if err != nil {
		x.Found.Missing(as, err)
	}
	for _, node := range nodes {
		wanted := func(file string) bool { return x.Found.UsersOutput() || !OfUsersProgram(file) }
		if !x.all(ctx, path.Join(dir, node), path.Join(as, node), wanted) {
			return false
		}
	}
	return true
}

// OfUsersProgram reports whether one of Ray's logs has the output of the user's program: of a driver, which supervisors also save in parts, or of a worker.
func OfUsersProgram(log string) bool {
	return strings.HasPrefix(log, "job-driver-") || strings.HasPrefix(log, "worker-")
}

// secrets hands over the values in a file that exists to hold secrets.
func (x RunExaminer) secrets(ctx context.Context, file string) {
	text, _, err := x.Files.End(ctx, file, EvidenceLimit)
	if err != nil {
		x.Found.Missing("the secrets of "+path.Base(file)+", which texts could have", err)
		return
	}
	values := map[string]string{}
	if json.Unmarshal(text, &values) != nil { // a token
		x.Found.Secret(strings.TrimSpace(string(text)))
	}
	for _, value := range values {
		x.Found.Secret(value)
	}
}
