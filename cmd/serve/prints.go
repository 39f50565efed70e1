package serve

import (
	"bytes"
	"context"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/rayctl/rayctl/cmd/app"
)

// withPrints adds to the log of each replica the files to which its process prints.
func withPrints(ctx context.Context, c *app.Connection, logs []processLog) ([]processLog, error) {
	var all []processLog
	for _, l := range logs {
		all = append(all, l)
		if l.replica == "" || l.WorkerID == "" {
			continue
		}
		files, err := c.NodeLogs(ctx, l.NodeID, "worker-"+l.WorkerID+"*")
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(files))...))) {
			if filepath.Ext(name) == ".out" || filepath.Ext(name) == ".err" {
				printed := l
				printed.LogFile = name
				all = append(all, printed)
			}
		}
	}
	return all, nil
}

// lines makes a writer for this log.
func (l processLog) lines(w io.Writer, several bool) *lineWriter {
	writer := lines(w, l.name, several)
	if ext := filepath.Ext(l.LogFile); ext == ".out" || ext == ".err" {
		writer.leaveOut = (&notPrinted{replica: []byte(l.replica)}).has
	}
	return writer
}

// notPrinted finds lines in what a replica's process prints that its user has not printed: Ray's marks of the task or actor that a process has become
// (ray/_private/ray_logging), and Serve's log, which goes to stderr, too (ray/serve/_private/logging_utils.py), with the tracebacks in it.
type notPrinted struct {
	replica []byte
	within  int // what the line before was: nothing of the log, a record, or a line of a traceback
}

const (
	withinRecord = iota + 1
	withinTraceback
)

var (
	marks     = regexp.MustCompile(`^:(job_id|actor_name|task_name):`)
	record    = regexp.MustCompile(`^(\{"|(DEBUG|INFO|WARNING|ERROR|CRITICAL) \d{4}-)`)
	begins    = regexp.MustCompile(`^(Traceback |ray::)`)
	traceback = regexp.MustCompile(`^(\s|Traceback |ray::|During handling |The above exception |$|[\w.]+(Error|Exception|Interrupt)\b)`)
)

func (n *notPrinted) has(line []byte) bool {
	switch {
	case record.Match(line) && bytes.Contains(line, n.replica):
		n.within = withinRecord
	case n.within == withinRecord && begins.Match(line), n.within == withinTraceback && traceback.Match(line):
		n.within = withinTraceback
	default:
		n.within = 0
	}
	return n.within > 0 || marks.Match(line)
}
