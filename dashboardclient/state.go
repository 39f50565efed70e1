package dashboardclient

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"
)

// Node is one Ray node from the state API, which is fresh, unlike /nodes.
type Node struct {
	// ID is the node's id in hexadecimal.
	ID string `json:"node_id"`
	// IP is the node's address in Ray.
	IP string `json:"node_ip"`
	// Name is the name given at its start, by default its IP.
	Name string `json:"node_name"`
	// State is ALIVE or DEAD.
	State string `json:"state"`
	// StateMessage is the reason of its death.
	StateMessage string `json:"state_message,omitempty"`
	// Head is true for the head.
	Head bool `json:"is_head_node"`
	// Resources are its total resources: CPU, GPU, memory and object_store_memory (bytes), and custom ones.
	Resources map[string]float64 `json:"resources_total"`
	// Labels are Ray's and the user's node labels; nil in 2.9.3.
	Labels map[string]string `json:"labels,omitempty"`
	// StartTime and EndTime are the times of joining and death; zero if not yet, or not reported.
	StartTime time.Time `json:"start_time,omitzero"`
	EndTime   time.Time `json:"end_time,omitzero"`
}

// UnmarshalJSON decodes the state API's form, with times in milliseconds since 1970.
func (n *Node) UnmarshalJSON(data []byte) error {
	type plain Node // without this method
	wire := struct {
		*plain
		StartTime int64 `json:"start_time_ms"`
		EndTime   int64 `json:"end_time_ms"`
	}{plain: (*plain)(n)}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	n.StartTime, n.EndTime = millis(wire.StartTime), millis(wire.EndTime)
	return nil
}

// Alive reports whether the node is part of the cluster now.
func (n Node) Alive() bool { return n.State == "ALIVE" }

// Summary counts actors or tasks by class or function name and state.
type Summary map[string]map[string]int

// stateLimit is the state API's limit of rows.
const stateLimit = 10000

// Nodes lists the cluster's nodes, dead ones included, fresh from the GCS.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	return c.nodes(ctx, request{doing: "list nodes"})
}

func (c *Client) nodes(ctx context.Context, r request) ([]Node, error) {
	var answer struct {
		Data struct {
			Result struct {
				Result []Node `json:"result"`
			} `json:"result"`
		} `json:"data"`
	}
	r.path = []string{"api", "v0", "nodes"}
	r.query = url.Values{"detail": {"true"}, "limit": {strconv.Itoa(stateLimit)}}
	err := c.call(ctx, r, &answer)
	return answer.Data.Result.Result, err
}

// WaitNodes returns the nodes once at least n of them are alive. It may be called before the dashboard answers at all. It fails
// when ctx ends, with the last cause, or when the token is refused.
func (c *Client) WaitNodes(ctx context.Context, n int) ([]Node, error) {
	var nodes []Node
	err := c.pollReady(ctx, "wait for the nodes", func(r request) (bool, error) {
		var err error
		nodes, err = c.nodes(ctx, r)
		alive := 0
		for _, node := range nodes {
			if node.Alive() {
				alive++
			}
		}
		return err == nil && alive >= n, err
	})
	return nodes, err
}

// ActorSummary counts the cluster's actors by class and state.
func (c *Client) ActorSummary(ctx context.Context) (Summary, error) {
	return c.summary(ctx, "actors")
}

// TaskSummary counts the cluster's tasks by function and state.
func (c *Client) TaskSummary(ctx context.Context) (Summary, error) {
	return c.summary(ctx, "tasks")
}

func (c *Client) summary(ctx context.Context, kind string) (Summary, error) {
	var answer struct {
		Data struct {
			Result struct {
				Result struct {
					Clusters map[string]struct {
						Summary map[string]struct {
							States map[string]int `json:"state_counts"`
						} `json:"summary"`
					} `json:"node_id_to_summary"`
				} `json:"result"`
			} `json:"result"`
		} `json:"data"`
	}
	err := c.call(ctx, request{doing: "count " + kind, path: []string{"api", "v0", kind, "summarize"}}, &answer)
	if err != nil {
		return nil, err
	}
	counts := Summary{}
	for name, entry := range answer.Data.Result.Result.Clusters["cluster"].Summary {
		counts[name] = entry.States
	}
	return counts, nil
}
