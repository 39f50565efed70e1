package clusters

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// mostSizes bounds the arguments of scale.
const mostSizes = 100

type scaleOptions struct {
	config app.ConfigFlags
	name   string
	bare   bool // two words without =: a group, or a cluster with one elastic group
	sizes  []keeper.Scale
	output app.Output
}

// NewScale is `rayctl scale`.
func NewScale(a *app.App) *cobra.Command {
	o := &scaleOptions{}
	c := &cobra.Command{
		Use:   "scale [NAME] GROUP=N|GROUP=MIN:MAX...",
		Short: "Change the size of elastic worker groups",
		Long: "scale sets the minimum number of nodes of an elastic group, and with MIN:MAX also the maximum. Nodes above MIN are added while tasks wait for them and removed when nothing uses " +
			"them; a node on which something runs is not removed. A group is elastic if its maxReplicas is above its minReplicas in the cluster file; scale cannot go beyond these two. If one of several groups cannot get its size, no group is changed.",
		Example: "  rayctl scale dev worker=4\n  rayctl scale dev rollout=2:8 worker=1",
		Args:    app.NoDash(2*mostSizes+1, "a name and sizes of groups"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.arguments(args); err != nil {
				return err
			}
			return a.Action(func(ctx context.Context) error { return runScale(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	o.output.Add(c, app.FormatJSON, app.FormatYAML)
	return c
}

// arguments are a name, which may be left out, and sizes of groups. A group and its size may also be two words: worker 4.
func (o *scaleOptions) arguments(args []string) error {
	if len(args) > 0 && !strings.Contains(args[0], "=") && (len(args) == 1 || !isSize(args[1])) {
		o.name, args = args[0], args[1:]
	}
	if len(args) == 0 {
		return app.UsageError("write it like worker=4, or worker=1:8", "no group and size is given")
	}
	o.bare = o.name == "" && len(args) == 2 && !strings.Contains(args[0], "=") && isSize(args[1])
	for len(args) > 0 {
		text := args[0]
		if args = args[1:]; len(args) > 0 && !strings.Contains(text, "=") && isSize(args[0]) {
			text, args = text+"="+args[0], args[1:]
		}
		size, err := parseSize(text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(o.sizes, func(s keeper.Scale) bool { return s.Group == size.Group }) {
			return app.UsageError("write it once, with the size that it is to have", "group %s is given twice", size.Group)
		}
		o.sizes = append(o.sizes, size)
	}
	return nil
}

// isSize reports whether a word is a size without its group: N or MIN:MAX.
func isSize(word string) bool {
	_, err := parseSize("group=" + word)
	return err == nil
}

// parseSize reads GROUP=N or GROUP=MIN:MAX.
func parseSize(text string) (keeper.Scale, error) {
	wrong := app.UsageError("write it like worker=4, or worker=1:8", "%q is not a group and its size", text)
	group, size, _ := strings.Cut(text, "=")
	least, most, ranged := strings.Cut(size, ":")
	s := keeper.Scale{Group: group}
	var err error
	if s.Min, err = strconv.Atoi(least); err != nil || group == "" || s.Min < 0 {
		return s, wrong
	}
	if !ranged {
		return s, nil
	}
	n, err := strconv.Atoi(most)
	if err != nil || n < s.Min {
		return s, wrong
	}
	s.Max = &n
	return s, nil
}

// runScale prints the groups' sizes.
func runScale(ctx context.Context, a *app.App, o *scaleOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if err := o.onlyGroup(ctx, a); err != nil {
		return err
	}
	c, err := a.Find(ctx, app.FindOptions{Name: o.name, Config: &o.config})
	if err != nil {
		return err
	}
	groups, err := scale(ctx, a, c, o.sizes)
	if err != nil {
		return err
	}
	if done, err := o.output.Structured(a.Out, groups); done || err != nil {
		return err
	}
	for _, g := range groups {
		chosen := slices.ContainsFunc(o.sizes, func(s keeper.Scale) bool { return s.Group == g.Name })
		if g.Elastic() || chosen {
			if _, err := fmt.Fprintf(a.Out, "%s: %d %s, at least %d and at most %d\n", terminal.OneLine(g.Name), g.Wanted, nodes(g.Wanted), g.Min, g.Max); err != nil {
				return err
			}
			if above := g.Wanted - g.Min; above > 0 && chosen {
				a.UI.Note("%s: %d %s above the minimum: a node is removed when nothing has used it for scaling.idle of the cluster's file (5m where the file does not set it)", g.Name, above, nodes(above))
			}
		}
	}
	return nil
}

// onlyGroup takes `scale dev 4` for the only elastic group of the cluster dev, if there is such a cluster.
func (o *scaleOptions) onlyGroup(ctx context.Context, a *app.App) error {
	if !o.bare {
		return nil
	}
	word := o.sizes[0].Group
	if is, err := a.Exists(ctx, word, &o.config); err != nil || !is {
		return nil //nolint:nilerr // a group, then
	}
	c, err := a.Find(ctx, app.FindOptions{Name: word, Config: &o.config})
	if err != nil {
		return err
	}
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	var elastic []string
	for _, g := range s.Groups {
		if g.Elastic() {
			elastic = append(elastic, g.Name)
		}
	}
	switch len(elastic) {
	case 0:
		return launcher.Fail(runstate.CodeSpec, nil, "a group is elastic if it was launched with a range, as in `rayctl up NAME --workers 1:3`", "%s has no elastic group, so its size cannot change", word)
	case 1:
		o.name, o.sizes[0].Group = word, elastic[0]
		return nil
	}
	return app.UsageError("name one: `rayctl scale "+word+" GROUP=N`", "%s has several elastic groups: %s", word, strings.Join(elastic, ", "))
}

// scale changes all groups or none: by the launcher, or by the keeper where that starts the nodes.
func scale(ctx context.Context, a *app.App, c *app.Cluster, sizes []keeper.Scale) ([]runstate.Group, error) {
	if l, able := launcher.As[launcher.Resizer](c.Launcher); able {
		return l.Scale(ctx, c.ID, sizes)
	}
	var groups []runstate.Group
	err := a.AskKeeper(ctx, c, func(k *keeper.Client) error {
		state, err := k.Scale(ctx, sizes...)
		if err == nil {
			groups = state.Groups
		}
		return err
	})
	if err != nil {
		return nil, scaleRefused(err)
	}
	return groups, nil
}

// scaleRefused is the keeper's answer to sizes that a group cannot have.
func scaleRefused(err error) error {
	if why, refused := keeper.Refusal(err); refused {
		return launcher.Fail(runstate.CodeSpec, nil, launcher.SizesHint, "%s", why)
	}
	return err
}

// nodes is the noun after a number of them.
func nodes(n int) string {
	if n == 1 {
		return "node"
	}
	return "nodes"
}
