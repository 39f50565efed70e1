package dashboardclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/dashboardclient/logstream"
)

// LogOptions selects a part of a log file.
type LogOptions struct {
	// Tail, if positive, is the number of last lines to read; otherwise the whole file is read.
	Tail int
	// Offset is the number of raw bytes to skip. It is not used with Tail.
	Offset int64
	// StripHeader is as in FollowOptions, for driver logs.
	StripHeader bool
	// OnInterrupted gets the cause when a followed log cannot be read for the moment, and nil when it can be again; it may be nil.
	OnInterrupted func(error)
}

// JobLog copies the present content of a driver's log to w.
func (c *Client) JobLog(ctx context.Context, id string, w io.Writer, opts LogOptions) error {
	job, err := c.GetJob(ctx, id)
	if err != nil {
		return err
	}
	node := job.DriverNodeID
	if node == "" {
		if node, err = c.headNode(ctx); err != nil {
			return err
		}
	}
	file := c.driverLog(node, id)
	if opts.StripHeader && opts.Tail > 0 {
		err = c.copyTail(ctx, file, logstream.NewStripper(id, job.Entrypoint, 0), w, opts.Tail)
	} else {
		var strip *logstream.Stripper
		if opts.StripHeader {
			strip = logstream.NewStripper(id, job.Entrypoint, opts.Offset)
		}
		err = c.copyLog(ctx, file, w, strip, opts)
	}
	var answered *APIError
	if errors.As(err, &answered) && answered.Status >= 500 && job.DriverNodeID == "" {
		return nil // the job had no driver, and so no log
	}
	return err
}

// Killed reports whether Ray killed the driver of a stopped job because it had not ended in its grace after SIGTERM. Only the log of the job's supervisor has it
// (ray/dashboard/modules/job/job_supervisor.py, 2.60); false if that cannot be read.
func (c *Client) Killed(ctx context.Context, job *Job) bool {
	if job.Status != JobStopped || job.DriverNodeID == "" {
		return false
	}
	var log bytes.Buffer
	err := c.copyLog(ctx, logFile{c, job.DriverNodeID, "jobs/supervisor-" + job.SubmissionID + ".log"}, &log, nil, LogOptions{Tail: 20})
	return err == nil && bytes.Contains(log.Bytes(), []byte("force-killed with SIGKILL"))
}

// AgentLog is the end of the log of a node's agent that makes runtime environments.
type AgentLog struct {
	Node Node
	Text string
}

// AgentLogName is the log's name on the node.
const AgentLogName = "runtime_env_agent.err"

// vague matches Ray's message (2.60) about a runtime environment that could not be made because of an exception in the agent itself, whose log alone has the cause.
var vague = regexp.MustCompile(`Internal Server Error|network problems|non-ok status code`)

const (
	agentLogLines = 200 // hold a traceback
	agentLogNodes = 16  // are asked: most of them have no entry in the log
)

// AgentLogs returns the lines of the agents' logs about a job that did not start, if Ray's message does not have the cause. Ray's record of the job does not name the
// node, so that there may be logs of several nodes, the head's first. It returns nothing if the logs cannot be read.
func (c *Client) AgentLogs(ctx context.Context, job *Job) (logs []AgentLog) {
	if job.Status != JobFailed || !vague.MatchString(job.Message) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil
	}
	nodes = slices.DeleteFunc(nodes, func(n Node) bool { return !n.Alive() })
	if head := slices.IndexFunc(nodes, func(n Node) bool { return n.Head }); head > 0 {
		nodes[0], nodes[head] = nodes[head], nodes[0]
	}
	for _, node := range nodes[:min(len(nodes), agentLogNodes)] {
		var text bytes.Buffer
		err := c.copyLog(ctx, logFile{c, node.ID, AgentLogName}, &text, nil, LogOptions{Tail: agentLogLines})
		if err == nil && strings.TrimSpace(text.String()) != "" {
			logs = append(logs, AgentLog{node, text.String()})
		}
	}
	return logs
}

// NodeLogs lists the log files of a node that match the glob ("" for all), by Ray's own categories ("gcs_server", "worker_out", ...).
func (c *Client) NodeLogs(ctx context.Context, nodeID, glob string) (map[string][]string, error) {
	var answer struct {
		Data struct {
			Result map[string][]string `json:"result"`
		} `json:"data"`
	}
	query := url.Values{"node_id": {nodeID}}
	if glob != "" {
		query.Set("glob", glob)
	}
	err := c.askAgent(ctx, nodeID, func() error {
		return c.call(ctx, request{doing: "list the logs of node " + nodeID, path: []string{"api", "v0", "logs"}, query: query}, &answer)
	})
	if err != nil {
		return nil, err
	}
	files := answer.Data.Result
	for category, names := range files {
		if len(names) == 0 {
			delete(files, category)
		}
	}
	return files, nil
}

// agentPatience is how long a node may be ALIVE before the head has its agent's address.
const agentPatience = 20 * time.Second

// askAgent repeats a request that a node's agent answers. In a node's first seconds Ray answers 500 ("Agent for node id: ... doesn't
// exist"), until the agent has reported its address to the head.
func (c *Client) askAgent(ctx context.Context, nodeID string, ask func() error) error {
	start := time.Now()
	return pollUntil(ctx, steady(500*time.Millisecond), func() (bool, error) {
		err := c.explainNode(ctx, nodeID, ask()) // a missing node is an error at once
		var answered *APIError
		if errors.As(err, &answered) && answered.Status == http.StatusInternalServerError && time.Since(start) < agentPatience {
			return false, nil
		}
		return true, err
	})
}

// NodeLog copies one log file of a node to w.
func (c *Client) NodeLog(ctx context.Context, nodeID, name string, w io.Writer, opts LogOptions) error {
	counted := &countingWriter{w: w}
	err := c.explainNode(ctx, nodeID, c.copyLog(ctx, logFile{c, nodeID, name}, counted, nil, opts))
	var answered *APIError
	refused := errors.As(err, &answered) && answered.Status == http.StatusInternalServerError
	if counted.n > 0 || err != nil && !refused {
		return err
	}
	// For a missing file Ray answers 500, and one time in twenty (2.60) with nothing, as for an empty one.
	files, listErr := c.NodeLogs(ctx, nodeID, name)
	if listErr == nil && len(files) == 0 {
		return &APIError{Doing: "read log " + name, Status: http.StatusNotFound, kind: ErrNotFound, Message: "the node has no such log file"}
	}
	return err
}

type countingWriter struct {
	w io.Writer
	n int
}

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += len(p)
	return c.w.Write(p)
}

// FollowNodeLog copies one log file of a node to w as it grows, until ctx ends (which is no error). Lost connections are restored.
func (c *Client) FollowNodeLog(ctx context.Context, nodeID, name string, w io.Writer, opts LogOptions) error {
	file := logFile{c, nodeID, name}
	t := logstream.NewTailer(file, nil, opts.Offset, c.config.Logger, opts.OnInterrupted)
	body, err := c.openLog(ctx, file, 1, false) // distinguishes a wrong name from a file that is temporarily missing
	if err != nil {
		return c.explainNode(ctx, nodeID, c.failure(ctx, ctx, "follow log "+name, err))
	}
	_ = body.Close()
	if opts.Tail > 0 {
		if err := t.SeekTail(ctx, opts.Tail); err != nil {
			return c.failure(ctx, ctx, "follow log "+name, err)
		}
	}
	return t.Follow(ctx, w)
}

// copyTail copies the driver's last lines. The cluster also counts Ray's lines, so that copyTail requests that many more.
func (c *Client) copyTail(ctx context.Context, file logFile, strip *logstream.Stripper, w io.Writer, lines int) error {
	tail := &bounded{}
	err := c.copyLog(ctx, file, tail, strip, LogOptions{Tail: lines + strip.SkipToTail()})
	switch {
	case errors.Is(err, errTooMuch):
		return c.copyLongTail(ctx, file, strip, w, lines)
	case err != nil:
		return err
	}
	_, err = w.Write(logstream.LastLines(tail.Bytes(), lines))
	return err
}

// copyLongTail copies last lines of any length: it reads the log once to find where they begin, and once more for them.
func (c *Client) copyLongTail(ctx context.Context, file logFile, strip *logstream.Stripper, w io.Writer, lines int) error {
	t := logstream.NewTailer(file, strip.From(0), 0, c.config.Logger, nil)
	if err := t.SeekTail(ctx, lines); err != nil {
		return c.failure(ctx, ctx, "read log "+file.name, err)
	}
	return c.copyLog(ctx, file, w, strip.From(t.Position()), LogOptions{Offset: t.Position()})
}

// bounded takes a few lines of usual length.
type bounded struct{ bytes.Buffer }

const mostBuffered = 8 << 20

var errTooMuch = errors.New("more than is kept in memory")

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > mostBuffered {
		return 0, errTooMuch
	}
	return b.Buffer.Write(p)
}

const logBuffer = 256 << 10

// copyLog copies a file once, without retries; for retries use a Follower.
func (c *Client) copyLog(ctx context.Context, file logFile, w io.Writer, strip *logstream.Stripper, opts LogOptions) error {
	body, err := c.openLog(ctx, file, opts.Tail, false)
	if err != nil {
		return c.failure(ctx, ctx, "read log "+file.name, err)
	}
	defer body.Close()
	if opts.Tail <= 0 {
		if _, err := io.CopyN(io.Discard, body, opts.Offset); err != nil && !errors.Is(err, io.EOF) {
			return c.failure(ctx, ctx, "read log "+file.name, err)
		}
	}
	t := logstream.NewTailer(file, strip, opts.Offset, c.config.Logger, nil)
	buffer := make([]byte, logBuffer)
	for {
		n, err := body.Read(buffer)
		if werr := t.Take(w, buffer[:n]); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			return t.Flush(w)
		}
		if err != nil {
			return c.failure(ctx, ctx, "read log "+file.name, err)
		}
	}
}

// headNode is the id of the live head.
func (c *Client) headNode(ctx context.Context) (string, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return "", err
	}
	for _, node := range nodes {
		if node.Head && node.Alive() {
			return node.ID, nil
		}
	}
	return "", &APIError{Doing: "find the head", Status: http.StatusNotFound, kind: ErrNotFound, Message: "the cluster lists no head that is alive"}
}

// explainNode distinguishes a wrong or dead node from other failures: Ray answers 500 for all of them.
func (c *Client) explainNode(ctx context.Context, nodeID string, err error) error {
	var answered *APIError
	if !errors.As(err, &answered) || answered.Status != http.StatusInternalServerError {
		return err
	}
	nodes, listErr := c.Nodes(ctx)
	if listErr != nil {
		return err
	}
	for _, node := range nodes {
		if node.ID == nodeID && node.Alive() {
			return err
		}
		if node.ID == nodeID {
			return &APIError{Doing: answered.Doing, Status: http.StatusNotFound, kind: ErrNotFound,
				Message: fmt.Sprintf("node %s (%s) is dead, and its logs are lost: %s", nodeID, node.IP, node.StateMessage)}
		}
	}
	return &APIError{Doing: answered.Doing, Status: http.StatusNotFound, kind: ErrNotFound, Message: "the cluster has no node " + nodeID}
}
