package dashboardclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
)

// ServeStatus is the state of Ray Serve on the cluster.
type ServeStatus struct {
	// Applications by name. Empty: Serve is not running or has none.
	Applications map[string]ServeApplication `json:"applications"`
	// HTTP is where Serve listens; nil: Serve does not run. It does not change while Serve runs.
	HTTP *ServeHTTP `json:"http_options,omitempty"`
	// ProxyLocation is on which nodes it listens: EveryNode (that has a replica, and the head), HeadOnly, Disabled.
	ProxyLocation string `json:"proxy_location,omitempty"`
	// Controller is Serve's own actor.
	Controller ServeActor `json:"controller_info"`
}

// ServeHTTP is where Serve listens for HTTP.
type ServeHTTP struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	RootPath string `json:"root_path"`
}

// ServeActor is a process of Serve.
type ServeActor struct {
	NodeID string `json:"node_id"`
	// LogFile is below the directory of the node's logs; with a slash before it.
	LogFile string `json:"log_file_path"`
	// WorkerID is in the names of the files to which the process prints.
	WorkerID string `json:"worker_id,omitempty"`
}

// ServeApplication is the state of one application.
type ServeApplication struct {
	// Status is Ray's: NOT_STARTED, DEPLOYING, RUNNING, DEPLOY_FAILED, UNHEALTHY, DELETING.
	Status string `json:"status"`
	// Message is Ray's explanation.
	Message string `json:"message"`
	// RoutePrefix is the application's path for HTTP requests; empty if it has none.
	RoutePrefix string `json:"route_prefix"`
	// DocsPath is the path of its API documentation, if any.
	DocsPath string `json:"docs_path,omitempty"`
	// LastDeployed is in seconds since 1970.
	LastDeployed float64 `json:"last_deployed_time_s"`
	// Deployments by name.
	Deployments map[string]ServeDeployment `json:"deployments"`
}

// ServeDeployment is the state of one deployment.
type ServeDeployment struct {
	// Status is Ray's: UPDATING, HEALTHY, UNHEALTHY, UPSCALING, DOWNSCALING.
	Status string `json:"status"`
	// Message is Ray's explanation: the traceback of the constructor if unhealthy.
	Message string `json:"message"`
	// Replicas that exist now.
	Replicas []ServeReplica `json:"replicas"`
}

// ServeReplica is one replica.
type ServeReplica struct {
	ID    string `json:"replica_id"`
	State string `json:"state"`
	ServeActor
}

var servePath = []string{"api", "serve", "applications/"}

// ServeApply replaces Serve's applications by those of config (Serve's REST schema, as a Go value that marshals to JSON) and
// deletes all others. It returns once Ray accepted the configuration; see ServeWait. ErrInvalid: a value of it is wrong.
func (c *Client) ServeApply(ctx context.Context, config any) error {
	err := c.call(ctx, request{doing: "apply the Serve configuration", method: http.MethodPut, path: servePath, body: config}, nil)
	var refused *APIError
	if errors.As(err, &refused) && refused.Status == http.StatusBadRequest {
		refused.kind = ErrInvalid
	}
	return err
}

// GetServe returns the state of all applications.
func (c *Client) GetServe(ctx context.Context) (*ServeStatus, error) {
	status := new(ServeStatus)
	err := c.call(ctx, request{doing: "ask for the state of Serve", path: servePath}, status)
	if err != nil {
		return nil, err
	}
	return status, nil
}

// ServeConfigs returns the configurations by which the applications were deployed, by name; nil: an application that a driver deployed (serve.run).
func (c *Client) ServeConfigs(ctx context.Context) (map[string]map[string]any, error) {
	var status struct {
		Applications map[string]struct {
			Config map[string]any `json:"deployed_app_config"`
		} `json:"applications"`
	}
	if err := c.call(ctx, request{doing: "ask for the configuration of Serve", path: servePath}, &status); err != nil {
		return nil, err
	}
	configs := map[string]map[string]any{}
	for name, app := range status.Applications {
		configs[name] = app.Config
	}
	return configs, nil
}

// ServeDelete shuts Serve down with all its applications.
func (c *Client) ServeDelete(ctx context.Context) error {
	return c.call(ctx, request{doing: "delete the Serve applications", method: http.MethodDelete, path: servePath}, nil)
}

// ErrServeFailed means that an application could not be deployed, or became unhealthy.
var ErrServeFailed = errors.New("the application failed")

// servePoll is the pause between polls: Serve's own control loop runs every 0.1 s, and each answer costs the head some work.
const servePoll = 300 * time.Millisecond

// ServeWait returns once the named applications (none named: all, at least one) are RUNNING. As soon as one has failed it returns a sentence with the
// deployment and the cause (ErrServeFailed). report, if given, is called with every state seen.
func (c *Client) ServeWait(ctx context.Context, names []string, report func(*ServeStatus)) error {
	running := 0
	return c.pollServe(ctx, "wait for the Serve applications", func(status *ServeStatus) (bool, error) {
		if report != nil {
			report(status)
		}
		wanted := names
		if len(wanted) == 0 {
			wanted = slices.Sorted(maps.Keys(status.Applications))
		}
		ready, err := allRunning(status, wanted)
		if !ready || err != nil {
			running = 0
			return false, err
		}
		running++
		return running == 2, nil // just after an update Serve reports the old state for one turn of its control loop
	})
}

// ServeWaitGone returns once none of the named applications (none named: none at all) is left.
func (c *Client) ServeWaitGone(ctx context.Context, names ...string) error {
	return c.pollServe(ctx, "wait for the Serve applications to end", func(status *ServeStatus) (bool, error) {
		left := func(name string) bool { _, exists := status.Applications[name]; return exists }
		return len(status.Applications) == 0 || len(names) > 0 && !slices.ContainsFunc(names, left), nil
	})
}

// pollServe polls until check is done. When ctx ends the error has the last state.
func (c *Client) pollServe(ctx context.Context, doing string, check func(*ServeStatus) (bool, error)) error {
	last := "no answer"
	err := pollUntil(ctx, steady(servePoll), func() (bool, error) {
		status, err := c.GetServe(ctx)
		if errors.Is(err, ErrUnreachable) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		last = status.String()
		return check(status)
	})
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w; last seen: %s", doing, ctx.Err(), last)
	}
	return err
}

// allRunning checks the named applications.
func allRunning(status *ServeStatus, names []string) (bool, error) {
	ready := len(names) > 0
	for _, name := range names {
		app, exists := status.Applications[name]
		if !exists {
			ready = false
			continue
		}
		if app.Failed() {
			return false, fmt.Errorf("%w: %s is %s: %s", ErrServeFailed, name, app.Status, app.Cause())
		}
		ready = ready && app.Status == "RUNNING"
	}
	return ready, nil
}

// Failed reports whether the application does not serve, and does not begin to.
func (a ServeApplication) Failed() bool {
	return a.Status == "DEPLOY_FAILED" || a.Status == "UNHEALTHY"
}

// Cause is one line with the deployment that failed, if one did, and the reason: the last exception of Serve's message.
func (a ServeApplication) Cause() string {
	for _, name := range slices.Sorted(maps.Keys(a.Deployments)) {
		deployment := a.Deployments[name]
		if deployment.Status == "UNHEALTHY" || deployment.Status == "DEPLOY_FAILED" {
			_, line := summarize(deployment.Message)
			return fmt.Sprintf("deployment %s: %s", name, line)
		}
	}
	_, line := summarize(a.Message)
	return line
}

// String is a line such as "app DEPLOYING (Model UPDATING)".
func (s *ServeStatus) String() string {
	if len(s.Applications) == 0 {
		return "no application"
	}
	line := ""
	for _, name := range slices.Sorted(maps.Keys(s.Applications)) {
		app := s.Applications[name]
		line += name + " " + app.Status
		for _, deployment := range slices.Sorted(maps.Keys(app.Deployments)) {
			line += fmt.Sprintf(" (%s %s)", deployment, app.Deployments[deployment].Status)
		}
		line += " "
	}
	return line[:len(line)-1]
}
