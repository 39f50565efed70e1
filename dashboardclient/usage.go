package dashboardclient

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Usage is the used and the total amount of a resource.
type Usage struct {
	Used  float64 `json:"used"`
	Total float64 `json:"total"`
}

// ClusterStatus is the autoscaler's view of the cluster.
type ClusterStatus struct {
	// Resources by name: used and total over all live nodes. Memory is in bytes.
	Resources map[string]Usage `json:"resources"`
	// UsageKnown is false, and Used 0, in a cluster's first seconds and without an autoscaler ("ray start --no-monitor"), which alone reports usage.
	UsageKnown bool `json:"usage_known"`
	// Demand is the list of waiting requests, as in "{'GPU': 1.0} * 4 (pending tasks/actors)".
	Demand []string `json:"demand,omitempty"`
}

// Activity is Ray's report on one component ("driver"): whether it keeps the cluster from being idle.
type Activity struct {
	// Active is true for ACTIVE. Every connected driver counts, even an open notebook.
	Active bool `json:"active"`
	// Reason is Ray's, as in "Number of active drivers: 1".
	Reason string `json:"reason,omitempty"`
	// LastActive is the last time it was active; zero if never.
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

// autoscalerStatus is the used part of /api/cluster_status.
type autoscalerStatus struct {
	Data struct {
		Status *struct {
			Metrics struct {
				// Usage is [used, total] by resource, with names in the dashboard's camel case.
				Usage map[string][2]float64 `json:"usage"`
				// NodeTypes are pairs of a node's resources, under their own names, and the number of such nodes.
				NodeTypes [][2]json.RawMessage `json:"nodeTypes"`
				// Demand, PlacementGroups and Requests are pairs of a request and its count.
				Demand          [][2]json.RawMessage `json:"resourceDemand"`
				PlacementGroups [][2]json.RawMessage `json:"pgDemand"`
				Requests        [][2]json.RawMessage `json:"requestDemand"`
			} `json:"loadMetricsReport"`
		} `json:"clusterStatus"`
	} `json:"data"`
}

// ClusterStatus reports resources in use. The view is up to about ten seconds old, because the nodes' reports and the autoscaler's
// are periodic.
func (c *Client) ClusterStatus(ctx context.Context) (*ClusterStatus, error) {
	var answer autoscalerStatus
	if err := c.call(ctx, request{doing: "ask for the cluster's status", path: []string{"api", "cluster_status"}}, &answer); err != nil {
		return nil, err
	}
	if answer.Data.Status == nil || len(answer.Data.Status.Metrics.Usage) == 0 { // no autoscaler, or no report yet
		return c.totals(ctx)
	}
	metrics := answer.Data.Status.Metrics
	status := &ClusterStatus{Resources: map[string]Usage{}, UsageKnown: true}
	names := map[string]string{}
	for _, pair := range metrics.NodeTypes {
		var resources map[string]float64
		if json.Unmarshal(pair[0], &resources) == nil {
			for name := range resources {
				names[camelCase(name)] = name
			}
		}
	}
	for camel, usage := range metrics.Usage {
		name := cmp.Or(names[camel], camel)
		if !strings.HasPrefix(name, "node:") { // Ray's markers to place tasks on a node
			status.Resources[name] = Usage{Used: usage[0], Total: usage[1]}
		}
	}
	status.add(metrics.Demand, "pending tasks or actors")
	status.add(metrics.PlacementGroups, "pending placement groups")
	status.add(metrics.Requests, "requested from the autoscaler")
	return status, nil
}

// add records demand, in Ray's own notation.
func (s *ClusterStatus) add(demand [][2]json.RawMessage, kind string) {
	for _, pair := range demand {
		s.Demand = append(s.Demand, fmt.Sprintf("%s * %s (%s)", pair[0], pair[1], kind))
	}
}

// totals is the status without an autoscaler.
func (c *Client) totals(ctx context.Context) (*ClusterStatus, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	status := &ClusterStatus{Resources: map[string]Usage{}}
	for _, node := range nodes {
		for name, total := range node.Resources {
			if node.Alive() && !strings.HasPrefix(name, "node:") {
				status.Resources[name] = Usage{Total: status.Resources[name].Total + total}
			}
		}
	}
	return status, nil
}

// camelCase converts a name like Ray's dashboard (to_camel_case in ray/dashboard/utils.py): all parts but the first
// get Python's str.title.
func camelCase(name string) string {
	parts := strings.Split(name, "_")
	var camel strings.Builder
	camel.WriteString(parts[0])
	for _, part := range parts[1:] {
		inWord := false
		for _, r := range part {
			if inWord {
				camel.WriteRune(unicode.ToLower(r))
			} else {
				camel.WriteRune(unicode.ToTitle(r))
			}
			inWord = unicode.IsLetter(r)
		}
	}
	return camel.String()
}
