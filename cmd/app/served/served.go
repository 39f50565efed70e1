// Package served says what a living cluster does for its users at this moment: the applications of Ray Serve with their URLs, and the jobs that have not
// ended. The keeper looks for itself, but only every few seconds.
package served

import (
	"context"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
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
	// URL is where this machine reaches it, on another machine than the head's through `rayctl port-forward`; "": it answers no HTTP requests.
	URL string `json:"url,omitempty"`
}

// Status is a cluster's status with what runs on it.
type Status struct {
	launcher.Status
	Applications []Application `json:"applications,omitempty"`
}

// Ask asks the dashboard of a cluster that is ready. Where it does not answer the status remains that of the keeper.
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
		active = append(active, runstate.Submission{SubmissionID: j.SubmissionID, State: runstate.JobState(j.Status), Entrypoint: j.Entrypoint, Start: &started})
	}
	slices.SortStableFunc(active, func(x, y runstate.Submission) int { return y.Start.Compare(*x.Start) })
	return active
}

// Applications are those of Serve, by name.
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

// Listens reports whether Serve takes HTTP requests, on a cluster of which it is known where it is.
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
