package dashboardclient

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
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

// NodeLoad is what one node that is alive does.
type NodeLoad struct {
	ID   string `json:"node_id"`
	Name string `json:"node_name"`
	IP   string `json:"node_ip"`
	Head bool   `json:"is_head_node"`
	// Used and Total by resource (CPU, GPU, custom ones): what tasks that run, living actors and placement groups hold, of what the node has.
	Resources map[string]Usage `json:"resources"`
	// Tasks that run and Actors that live on it, without those of Ray's own machinery.
	Tasks  int `json:"tasks"`
	Actors int `json:"actors"`
	// Measured is false until the node's agent has reported what follows; that is a few seconds old.
	Measured bool `json:"measured"`
	// CPUPercent of the machine or container, by whatever runs there.
	CPUPercent float64 `json:"cpu_percent"`
	// Memory of the machine or container, in bytes.
	Memory Usage `json:"memory"`
	// GPUs that are there, each with its load.
	GPUs []GPULoad `json:"gpus,omitempty"`
}

// GPULoad is the load of one GPU.
type GPULoad struct {
	Percent float64 `json:"percent"`
	Memory  Usage   `json:"memory"` // in bytes
}

// Load reports what each living node does. It asks the nodes themselves, and needs no autoscaler, which "ray status" does.
func (c *Client) Load(ctx context.Context) ([]NodeLoad, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var loads []NodeLoad
	for _, n := range nodes {
		if !n.Alive() {
			continue
		}
		load := NodeLoad{ID: n.ID, Name: n.Name, IP: n.IP, Head: n.Head, Resources: map[string]Usage{}}
		for name, total := range n.Resources {
			if !strings.HasPrefix(name, "node:") {
				load.Resources[name] = Usage{Total: total}
			}
		}
		loads = append(loads, load)
	}
	byID := map[string]*NodeLoad{}
	for i := range loads {
		byID[loads[i].ID] = &loads[i]
	}
	if err := c.addWork(ctx, byID); err != nil {
		return nil, err
	}
	return loads, c.addMeasured(ctx, byID)
}

// holder is a task, an actor or a placement group of the state API.
type holder struct {
	Node      string             `json:"node_id"`
	Resources map[string]float64 `json:"required_resources"`
	Group     string             `json:"placement_group_id"`
	Name      string             `json:"name"`
	Type      string             `json:"type"` // of a task
	Namespace string             `json:"ray_namespace"`
	Bundles   []struct {
		Node      string             `json:"node_id"`
		Resources map[string]float64 `json:"unit_resources"`
	} `json:"bundles"`
}

// internal: Ray's own machinery for jobs and Serve.
func (h *holder) internal() bool {
	return strings.HasPrefix(h.Namespace, "_ray_internal") || h.Namespace == "SUPERVISOR_ACTOR_RAY_NAMESPACE" || strings.Contains(h.Name, "_ray_internal") || strings.HasPrefix(h.Name, "JobSupervisor")
}

// addWork counts tasks and actors, and what they and placement groups hold. What is in a placement group holds nothing besides.
func (c *Client) addWork(ctx context.Context, nodes map[string]*NodeLoad) error {
	hold := func(node string, resources map[string]float64) {
		n := nodes[node]
		for name, amount := range resources {
			if n != nil {
				if usage, known := n.Resources[name]; known {
					n.Resources[name] = Usage{Used: usage.Used + amount, Total: usage.Total}
				}
			}
		}
	}
	for kind, state := range map[string]string{"tasks": "RUNNING", "actors": "ALIVE", "placement_groups": "CREATED"} {
		holders, err := c.inState(ctx, kind, state)
		if err != nil {
			return err
		}
		for _, h := range holders {
			for _, b := range h.Bundles {
				hold(b.Node, b.Resources)
			}
			n := nodes[h.Node]
			if n == nil || h.internal() {
				continue
			}
			switch kind {
			case "tasks":
				n.Tasks++
			case "actors":
				n.Actors++
			}
			if h.Group == "" && (kind == "actors" || h.Type == "NORMAL_TASK") { // an actor's method runs on what the actor holds
				hold(h.Node, h.Resources)
			}
		}
	}
	return nil
}

// inState lists the tasks, actors or placement groups in one state.
func (c *Client) inState(ctx context.Context, kind, state string) ([]holder, error) {
	var answer struct {
		Data struct {
			Result struct {
				Result []holder `json:"result"`
			} `json:"result"`
		} `json:"data"`
	}
	query := url.Values{"detail": {"true"}, "limit": {strconv.Itoa(stateLimit)}, "filter_keys": {"state"}, "filter_predicates": {"="}, "filter_values": {state}}
	err := c.call(ctx, request{doing: "list " + strings.ReplaceAll(kind, "_", " "), path: []string{"api", "v0", kind}, query: query}, &answer)
	return answer.Data.Result.Result, err
}

// addMeasured adds what the nodes' agents measure.
func (c *Client) addMeasured(ctx context.Context, nodes map[string]*NodeLoad) error {
	var answer struct {
		Data struct {
			Summary []struct {
				CPU    *float64  `json:"cpu"`
				Memory []float64 `json:"mem"` // total, available, percent, used
				GPUs   []struct {
					Percent float64 `json:"utilizationGpu"`
					Used    float64 `json:"memoryUsed"` // MiB
					Total   float64 `json:"memoryTotal"`
				} `json:"gpus"`
				Raylet struct {
					ID string `json:"nodeId"`
				} `json:"raylet"`
			} `json:"summary"`
		} `json:"data"`
	}
	if err := c.call(ctx, request{doing: "ask for the nodes' load", path: []string{"nodes"}, query: url.Values{"view": {"summary"}}}, &answer); err != nil {
		return err
	}
	for _, m := range answer.Data.Summary {
		n := nodes[m.Raylet.ID]
		if n == nil || m.CPU == nil || len(m.Memory) < 4 {
			continue
		}
		n.Measured, n.CPUPercent, n.Memory = true, *m.CPU, Usage{Used: m.Memory[3], Total: m.Memory[0]}
		for _, g := range m.GPUs {
			n.GPUs = append(n.GPUs, GPULoad{Percent: g.Percent, Memory: Usage{Used: g.Used * (1 << 20), Total: g.Total * (1 << 20)}})
		}
	}
	return nil
}
