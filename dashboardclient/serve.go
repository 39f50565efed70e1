package dashboardclient

import (
	"context"
	"net/http"
)

// ServeStatus is the state of Ray Serve on the cluster.
type ServeStatus struct {
	// Applications by name. Empty: Serve is not running or has none.
	Applications map[string]ServeApplication `json:"applications"`
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
	ID     string `json:"replica_id"`
	State  string `json:"state"`
	NodeID string `json:"node_id"`
}

var servePath = []string{"api", "serve", "applications/"}

// ServeApply replaces Serve's applications by those of config (Serve's REST schema, as a Go value that marshals to JSON) and
// deletes all others. It returns once Ray accepted the configuration; see ServeWait.
func (c *Client) ServeApply(ctx context.Context, config any) error {
	return c.call(ctx, request{doing: "apply the Serve configuration", method: http.MethodPut, path: servePath, body: config}, nil)
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

// ServeDelete shuts Serve down with all its applications.
func (c *Client) ServeDelete(ctx context.Context) error {
	return c.call(ctx, request{doing: "delete the Serve applications", method: http.MethodDelete, path: servePath}, nil)
}
