package script

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Component is a part of the job whose nodes are alike: groups that ask Slurm for the same are one.
type Component struct {
	Request Request
	Nodes   int
}

// Request is what one node of a component requests.
type Request struct {
	CPUs       int
	Memory     string // as --mem takes it, "" is Slurm's default
	Whole      bool   // a node for itself
	GPUs       string // [type:]count
	Constraint string
	Slurm      slurmspec.Group
}

// Components are those of the job: of all required nodes, or of an early head alone.
func (p Plan) Components() []Component {
	groups := p.Spec.NodeGroups()
	if p.Spec.Head.Early {
		groups = groups[:1]
	}
	return p.components(groups)
}

// Gang are the components of the job that holds all other required nodes, where the head is early; none where it is not.
func (p Plan) Gang() []Component {
	if !p.Spec.Head.Early {
		return nil
	}
	return p.components(p.Spec.NodeGroups()[1:])
}

// components joins neighbouring groups with equal requests, of the required nodes, so that tasks count over the groups in the orders' sequence.
func (p Plan) components(groups []spec.NodeGroup) []Component {
	var out []Component
	for _, g := range groups {
		if g.Min == 0 {
			continue
		}
		r := p.request(g)
		if n := len(out); n > 0 && reflect.DeepEqual(out[n-1].Request, r) {
			out[n-1].Nodes += g.Min
			continue
		}
		out = append(out, Component{Request: r, Nodes: g.Min})
	}
	return out
}

func (p Plan) request(g spec.NodeGroup) Request {
	r := Request{CPUs: int(g.CPUs), Whole: p.exclusive(g), Slurm: slurmspec.For(p.Spec, g)}
	if r.CPUs == 0 && !r.Whole {
		r.CPUs = 1
	}
	switch mebibytes := mebibytesOf(g); {
	case !r.Slurm.RequestsMemory():
	case mebibytes > 0:
		r.Memory = fmt.Sprintf("%dM", mebibytes)
	case r.Whole:
		r.Memory = "0" // all of the node's
	}
	if r.Constraint = r.Slurm.Constraint; g.GPUs > 0 {
		r.GPUs = fmt.Sprint(g.GPUs)
		if g.GPUType != "" {
			t, given := slurmspec.GPUTypeOf(p.Spec, g.GPUType)
			if t.Constraint == "" || given {
				r.GPUs = t.Gres + ":" + r.GPUs
			}
			r.Constraint = strings.Trim(r.Constraint+"&"+t.Constraint, "&")
		}
	}
	return r
}

// mebibytesOf is a group's memory in the file, in MiB; 0 if it is not set.
func mebibytesOf(g spec.NodeGroup) int64 {
	const mib = 1 << 20
	return (g.Memory.Value() + mib - 1) / mib
}
