// Package served finds what a living cluster has at this moment: the applications of Ray Serve with their URLs, and the submitted jobs.
// It asks the dashboard, because the keeper's state has no applications, and its list of jobs may be some seconds old.
package served

import (
	"context"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Loopback is where Serve listens by default on a host that clusters share.
const Loopback = "127.0.0.1"

// patience is how long status waits for a dashboard: it shows what the keeper knows in any case.
const patience = 5 * time.Second

// Application is an application of Ray Serve.
type Application struct {
	Name    string `json:"name"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
	// URL is where this machine reaches it: directly if the head is on this machine, else only while `rayctl port-forward` runs with the same local port.
	// "": it answers no HTTP requests.
	URL string `json:"url,omitempty"`
}

// Status is a cluster's status with its applications of Ray Serve.
type Status struct {
	launcher.Status
	Applications []Application `json:"applications,omitempty"`
}

// Ask adds to the status s of a ready cluster what its dashboard knows: applications, and if the cluster has no job of its own, the submitted jobs: those that have
// not ended, and how many have. What the dashboard does not answer stays as it is in s, which the keeper has reported.
func Ask(ctx context.Context, a *app.App, cluster *app.Cluster, s launcher.Status) Status {
	now := Status{Status: s}
	if s.Phase != runstate.Ready || !s.Ours {
		return now
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := a.ConnectCluster(ctx, cluster)
	if err != nil {
		a.Logger().Debug("the dashboard is not reachable", "error", err)
		return now
	}
	defer c.Close()
	if jobs, err := c.ListJobs(ctx); err == nil && s.Job == nil {
		now.Submissions = submissions(jobs)
		if ended := ended(jobs, s.Name+drain); ended != nil { // a head that was started again knows nothing of the jobs before
			now.EndedSubmissions = ended
		}
	}
	serve, err := c.GetServe(ctx)
	if err != nil { // Ray without Serve
		a.Logger().Debug("Serve is not known", "error", err)
		return now
	}
	now.Applications = Applications(c, serve)
	return now
}

// submissions are the jobs that have not ended, the newest first, as the keeper lists them.
func submissions(jobs []dashboardclient.Job) (active []runstate.Submission) {
	for _, j := range jobs {
		if j.SubmissionID == "" || j.Status.Terminal() {
			continue
		}
		started := j.StartTime
		active = append(active, runstate.Submission{SubmissionID: j.SubmissionID, State: runstate.JobState(j.Status), Entrypoint: j.Entrypoint, Start: &started, WaitsFor: j.WaitsFor()})
	}
	slices.SortStableFunc(active, func(x, y runstate.Submission) int { return y.Start.Compare(*x.Start) })
	return active
}

// drain follows the cluster's name in the submission ids of the keeper's own jobs (keeper/rayctl_keeper/state/document.py, DRAIN).
const drain = "-drain-"

// longest is how much of an entrypoint the keeper shows.
const longest = 200

// ended counts the submissions that have ended, as the keeper does (keeper/rayctl_keeper/run/limits/idle.py); nil: none has. Those whose ids begin with ours are the keeper's.
func ended(jobs []dashboardclient.Job, ours string) *runstate.EndedSubmissions {
	var found runstate.EndedSubmissions
	var last dashboardclient.Job
	for _, j := range jobs {
		if j.SubmissionID == "" || !j.Status.Terminal() || strings.HasPrefix(j.SubmissionID, ours) {
			continue
		}
		found.Count++
		if j.Status == dashboardclient.JobSucceeded {
			found.Succeeded++
		}
		if found.Count == 1 || j.EndTime.After(last.EndTime) {
			last = j
		}
	}
	if found.Count == 0 {
		return nil
	}
	command := driverio.UserCommand(last.Entrypoint)
	found.Last = runstate.Submission{SubmissionID: last.SubmissionID, State: runstate.JobState(last.Status), Entrypoint: command[:min(longest, len(command))], Start: &last.StartTime}
	return &found
}

// Applications lists the applications of Serve in the order of their names.
func Applications(c *app.Connection, s *dashboardclient.ServeStatus) (all []Application) {
	base := base(c, s)
	for _, name := range slices.Sorted(maps.Keys(s.Applications)) {
		of := s.Applications[name]
		found := Application{Name: name, Status: of.Status, Message: of.Message}
		if base != "" && of.RoutePrefix != "" {
			found.URL = base + path.Join("/", s.HTTP.RootPath, of.RoutePrefix)
		}
		all = append(all, found)
	}
	return all
}

// Listens reports whether Serve takes HTTP requests, and the connection is to a cluster that a launcher knows: with --address it is not known where Serve's port is.
func Listens(c *app.Connection, s *dashboardclient.ServeStatus) bool {
	return s.HTTP != nil && c.Cluster() != nil && s.ProxyLocation != "Disabled"
}

// base is the beginning of the URLs at which this machine reaches Serve; "" if it cannot.
func base(c *app.Connection, s *dashboardclient.ServeStatus) string {
	if !Listens(c, s) {
		return ""
	}
	host := s.HTTP.Host
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() || !OnThisMachine(c) {
		host = Loopback
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(s.HTTP.Port))
}

// OnThisMachine reports whether the head is here.
func OnThisMachine(c *app.Connection) bool {
	return c.Cluster() != nil && c.Cluster().Launcher.Properties().HeadsHere
}
