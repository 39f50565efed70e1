package dashboardclient

import (
	"context"
	"time"
)

// Node is one Ray node, as the state API has it (fresh, unlike /nodes).
type Node struct {
	// ID is the node's id in hexadecimal.
	ID string `json:"node_id"`
	// IP is the address Ray uses for it.
	IP string `json:"node_ip"`
	// Name is the name it was started with, its IP by default.
	Name string `json:"node_name"`
	// State is ALIVE or DEAD.
	State string `json:"state"`
	// StateMessage says why it is dead.
	StateMessage string `json:"state_message,omitempty"`
	// Head is true for the head.
	Head bool `json:"is_head_node"`
	// Resources is what it has in total: CPU, GPU, memory and object_store_memory (bytes), and custom ones.
	Resources map[string]float64 `json:"resources_total"`
	// Labels are Ray's and the user's node labels; nil in 2.9.3.
	Labels map[string]string `json:"labels,omitempty"`
	// StartTime and EndTime are when it joined and died; zero if not yet, or not reported.
	StartTime time.Time `json:"start_time,omitzero"`
	EndTime   time.Time `json:"end_time,omitzero"`
}

// Alive reports whether the node is part of the cluster now.
func (n Node) Alive() bool { return n.State == "ALIVE" }

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

// Summary counts actors or tasks by class or function name and state.
type Summary map[string]map[string]int

// Activity is what Ray says of one component ("driver"): whether it keeps the cluster from being idle.
type Activity struct {
	// Active is true for ACTIVE. Any connected driver counts, also an open notebook.
	Active bool `json:"active"`
	// Reason is Ray's, as in "Number of active drivers: 1".
	Reason string `json:"reason,omitempty"`
	// LastActive is when it was last seen active; zero if never.
	LastActive time.Time `json:"last_active,omitzero"`
}

// Nodes lists the cluster's nodes, dead ones included, fresh from the GCS.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) { panic("later") }

// ClusterStatus reports resources in use. The view is up to a few seconds old: the nodes report to the head periodically.
func (c *Client) ClusterStatus(ctx context.Context) (*ClusterStatus, error) { panic("later") }

// ActorSummary counts the cluster's actors by class and state.
func (c *Client) ActorSummary(ctx context.Context) (Summary, error) { panic("later") }

// TaskSummary counts the cluster's tasks by function and state.
func (c *Client) TaskSummary(ctx context.Context) (Summary, error) { panic("later") }

// Activities reports by component what keeps the cluster busy.
func (c *Client) Activities(ctx context.Context) (map[string]Activity, error) { panic("later") }
