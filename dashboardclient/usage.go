package dashboardclient

import (
	"context"
	"time"
)

// Usage is how much of a resource is in use.
type Usage struct {
	Used  float64 `json:"used"`
	Total float64 `json:"total"`
}

// ClusterStatus is the autoscaler's view of the cluster.
type ClusterStatus struct {
	// Resources by name: used and total over all live nodes. Memory is in bytes.
	Resources map[string]Usage `json:"resources"`
	// Demand is what waits for resources, as in "{'GPU': 1.0} * 4 (pending tasks/actors)".
	Demand []string `json:"demand,omitempty"`
}

// Activity is what Ray says of one component ("driver"): whether it keeps the cluster from being idle.
type Activity struct {
	// Active is true for ACTIVE. Any connected driver counts, also an open notebook.
	Active bool `json:"active"`
	// Reason is Ray's, as in "Number of active drivers: 1".
	Reason string `json:"reason,omitempty"`
	// LastActive is when it was last seen active; zero if never.
	LastActive time.Time `json:"last_active,omitzero"`
}

// Activities reports by component what keeps the cluster busy.
func (c *Client) Activities(ctx context.Context) (map[string]Activity, error) {
	var answer map[string]struct {
		Active string  `json:"is_active"`
		Reason string  `json:"reason"`
		Last   float64 `json:"last_activity_at"` // seconds
	}
	err := c.call(ctx, request{doing: "ask what is active", path: []string{"api", "component_activities"}}, &answer)
	if err != nil {
		return nil, err
	}
	activities := map[string]Activity{}
	for component, a := range answer {
		activities[component] = Activity{Active: a.Active == "ACTIVE", Reason: a.Reason, LastActive: millis(int64(a.Last * 1000))}
	}
	return activities, nil
}

func (c *Client) ClusterStatus(ctx context.Context) (*ClusterStatus, error) { panic("later") }
