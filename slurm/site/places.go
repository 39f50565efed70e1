package site

import (
	"context"
	"fmt"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// lookAt is a look at a node that a group would have.
type lookAt struct {
	group spec.NodeGroup
	found seen
	err   error
}

// looksAtOnce is how many nodes doctor looks at at one time.
const looksAtOnce = 4

// lookAtAll looks at a node of the head's group, first, and at one for each other way in which groups choose their nodes: partitions may differ in Python, containers,
// disks and networks. The nodes of an allocation were chosen by somebody else.
func (site *Site) lookAtAll(ctx context.Context, p script.Plan, around Around) []lookAt {
	var looks []lookAt
	for _, g := range places(p) {
		looks = append(looks, lookAt{group: g})
	}
	if around.Job != 0 {
		looks = looks[:1]
	}
	elastic, err := site.putCompanion(ctx, p)
	if err != nil {
		looks[0].err = err
		return looks[:1]
	}
	var all errgroup.Group
	all.SetLimit(looksAtOnce)
	for i := range looks {
		l, own, submits := &looks[i], p, ""
		if i == 0 {
			submits = elastic // the keeper is on the head's node
		} else { // what a look leaves behind is not for another one
			own.Run = path.Join(p.Run, fmt.Sprintf("place-%d", i))
		}
		all.Go(func() error {
			l.found, l.err = site.look(ctx, own, l.group, around, submits)
			return nil
		})
	}
	_ = all.Wait() // each look has its own error
	return looks
}

// places are the head's group, and of the others one for each different choice of nodes.
func places(p script.Plan) (out []spec.NodeGroup) {
	var seen [][][2]string
	for i, g := range p.Spec.NodeGroups() {
		where := script.Where(slurmspec.For(p.Spec, g), p.ConstraintOf(g))
		if i > 0 && (g.Max == 0 || slices.ContainsFunc(seen, func(other [][2]string) bool { return slices.Equal(other, where) })) {
			continue
		}
		seen, out = append(seen, where), append(out, g)
	}
	return out
}
