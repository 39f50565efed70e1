package dump

import (
	"context"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/tail"
)

// Collector collects from one cluster.
type Collector struct {
	App     *app.App
	Cluster *app.Cluster
	// Receipt is what this machine has seen of the cluster's end; nil: nothing.
	Receipt *launcher.Receipt
	Archive *Archive
}

// How long one source may take. The archive's problems.txt names what a source has not returned by then.
const (
	statusTime  = time.Minute
	examineTime = 3 * time.Minute
	rayTime     = 2 * time.Minute
)

// Limits of what is read from Ray.
const (
	mostLogNodes = 16
	mostLogLines = 5000 // of one log
)

// Collect adds what each source has: the launcher's status, its Examine, and Ray's dashboard while the cluster lives. A source that fails is a problem in the
// archive. An error is returned only if nothing at all was found (the status's error, such as that there is no such cluster), or if ctx was cancelled.
func (d *Collector) Collect(ctx context.Context) error {
	d.Archive.Environment(os.Environ())
	s, unknown := d.status(ctx)
	d.within(ctx, examineTime, func(ctx context.Context) { d.Cluster.Launcher.Examine(ctx, d.Cluster.ID, d.Archive) })
	if unknown == nil && !s.Phase.Ended() {
		d.within(ctx, rayTime, d.ray)
	}
	if ctx.Err() == nil && d.Archive.Empty() {
		return unknown
	}
	return ctx.Err()
}

func (d *Collector) within(ctx context.Context, limit time.Duration, source func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	source(ctx)
}

// status adds the state, the result of an ended cluster, and the receipt that this machine has of it.
func (d *Collector) status(ctx context.Context) (launcher.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	s, err := d.Cluster.Status(ctx)
	if err != nil {
		d.Archive.Missing("status.json", err)
	} else {
		launcher.AddJSON(d.Archive, "status.json", s)
	}
	if d.Receipt != nil {
		launcher.AddJSON(d.Archive, "receipt.json", d.Receipt)
	}
	if err == nil && s.Phase.Ended() {
		d.result(ctx)
	}
	return s, err
}

// result adds the result, and the end of the driver's log if that is wanted.
func (d *Collector) result(ctx context.Context) {
	r, err := d.Cluster.Result(ctx)
	if err != nil {
		d.Archive.Missing("result.json", err)
		return
	}
	launcher.AddJSON(d.Archive, "result.json", r)
	if !d.Archive.UsersOutput() {
		return
	}
	saved, err := r.OpenLog(ctx, 0, max(0, r.Log.Bytes-launcher.EvidenceLimit))
	if err != nil {
		d.Archive.Missing("driver.log", err)
		return
	}
	defer saved.Close()
	text, err := io.ReadAll(io.LimitReader(saved, launcher.EvidenceLimit))
	if err != nil { // the text ends early
		d.Archive.Missing("driver.log", err)
	}
	d.Archive.Add("driver.log", text, max(r.Log.Bytes, int64(len(text))))
}

// ray adds Ray's lists of nodes and jobs, and the ends of their logs. Until the cluster ends only Ray has these logs: rayctl saves them at the end.
func (d *Collector) ray(ctx context.Context) {
	e, err := d.App.Dial(ctx, d.Cluster, launcher.Dashboard)
	if err != nil {
		d.Archive.Missing("ray", err)
		return
	}
	defer e.Close()
	d.Archive.Secret(e.Token)
	client, err := launcher.DashboardClient(e, d.App.Logger())
	if err != nil {
		d.Archive.Missing("ray", err)
		return
	}
	defer client.Close()
	nodes, err := client.Nodes(ctx)
	if err != nil {
		d.Archive.Missing("ray/nodes.json", err)
		return
	}
	launcher.AddJSON(d.Archive, "ray/nodes.json", nodes)
	jobs, err := client.ListJobs(ctx)
	if err != nil {
		d.Archive.Missing("ray/jobs.json", err)
	} else {
		launcher.AddJSON(d.Archive, "ray/jobs.json", jobs)
	}
	if d.Archive.UsersOutput() {
		d.driverLogs(ctx, client, jobs)
	}
	alive := slices.DeleteFunc(nodes, func(n dashboardclient.Node) bool { return n.State != runstate.NodeAlive })
	slices.SortStableFunc(alive, func(x, y dashboardclient.Node) int { return headFirst(y) - headFirst(x) })
	for _, n := range alive[:min(len(alive), mostLogNodes)] {
		d.nodeLogs(ctx, client, n)
	}
}

func headFirst(n dashboardclient.Node) int {
	if n.Head {
		return 1
	}
	return 0
}

// mostDriverLogs limits from how many jobs the driver's log is added: a cluster may have had many. The newest jobs are taken.
const mostDriverLogs = 5

// driverLogs adds the ends of the drivers' logs of jobs, which are in the order of ListJobs: the newest first.
func (d *Collector) driverLogs(ctx context.Context, client *dashboardclient.Client, jobs []dashboardclient.Job) {
	for _, job := range jobs[:min(len(jobs), mostDriverLogs)] {
		if job.SubmissionID != "" {
			d.addTail(path.Join("ray/drivers", strings.ReplaceAll(job.SubmissionID, "/", "_")+".log"), func(w io.Writer) error {
				return client.JobLog(ctx, job.SubmissionID, w, dashboardclient.LogOptions{Tail: mostLogLines})
			})
		}
	}
}

// nodeLogs adds Ray's own logs of a node.
func (d *Collector) nodeLogs(ctx context.Context, client *dashboardclient.Client, n dashboardclient.Node) {
	as := path.Join("ray/nodes", strings.ReplaceAll(n.Name, "/", "_"))
	logs, err := client.NodeLogs(ctx, n.ID, "")
	if err != nil {
		d.Archive.Missing(as, err)
		return
	}
	for _, file := range slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(logs))...))) {
		if d.Archive.UsersOutput() || ofRay(file) {
			d.addTail(path.Join(as, strings.ReplaceAll(file, "/", "_")), func(w io.Writer) error {
				return client.NodeLog(ctx, n.ID, file, w, dashboardclient.LogOptions{Tail: mostLogLines})
			})
		}
	}
}

// ofRay reports whether a log is of one of Ray's own servers, of which each node has one. There may be thousands of logs of workers.
func ofRay(file string) bool {
	return slices.ContainsFunc([]string{"gcs_server", "raylet", "dashboard", "monitor", "log_monitor", "runtime_env", "ray_client_server"}, func(server string) bool { return strings.HasPrefix(file, server) })
}

// addTail adds the end of what write writes, under the name as. If write fails, that is a problem, and what it wrote before is added.
func (d *Collector) addTail(as string, write func(io.Writer) error) {
	end := &tail.Tail{Size: launcher.EvidenceLimit}
	if err := write(end); err != nil {
		d.Archive.Missing(as, err)
	}
	if end.Written() > 0 {
		d.Archive.Add(as, []byte(end.String()), end.Written())
	}
}
