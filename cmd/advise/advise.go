package advise

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher/spec"
)

type options struct {
	config app.ConfigFlags
	needs  Needs
	output app.Output
}

// question is one of Needs but the nodes: its flag, and how a person is asked.
type question struct {
	flag, usage, asked string
	answer             *bool
}

func (o *options) questions() []question {
	n := &o.needs
	return []question{
		{"tightly-coupled", "the nodes of a job wait for each other, as in all-reduce", "Do the nodes of a job wait for each other, as in data-parallel training?", &n.TightlyCoupled},
		{"bare-metal", "jobs get whole machines, without pods", "Do jobs get whole machines, without pods?", &n.BareMetal},
		{"long-lived-services", "something answers all the time, such as inference", "Must something answer all the time, such as inference?", &n.LongLivedServices},
		{"multi-tenant", "several teams share the machines", "Do several teams share the machines?", &n.MultiTenant},
		{"python-native", "the pipeline is Python with tasks and actors", "Is the pipeline Python with tasks and actors, as Ray runs them?", &n.PythonNative},
		{"edge", "small machines at the edge, or one for development", "Are they small machines at the edge, or one for development?", &n.Edge},
	}
}

// New is `rayctl advise`.
func New(a *app.App) *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use:   "advise [-f FILE | flags]",
		Short: "Advise on Slurm or Kubernetes and the launcher for your work",
		Long: "advise says which control plane fits your work, whether a gang scheduler is required, and which launcher and cluster file rayctl then needs, with the reasons.\n" +
			"Without flags it goes by the cluster file, or asks on a terminal. It connects to nothing and writes nothing.",
		Example: "  rayctl advise\n  rayctl advise --nodes 16 --tightly-coupled --bare-metal\n  rayctl advise --nodes 8 --python-native --multi-tenant -o json\n  rayctl advise -f rayctl.yaml",
		Args:    app.NoDash(0, "no arguments"),
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return run(a, c, o) // without a context of its own: Ctrl-C ends it, also at a question
	}
	o.config.AddSelection(c)
	c.Flags().IntVar(&o.needs.Nodes, "nodes", 1, "number of nodes of one job: `N`")
	for _, q := range o.questions() {
		c.Flags().BoolVar(q.answer, q.flag, false, q.usage)
	}
	o.output.Add(c, app.FormatJSON, app.FormatYAML)
	return c
}

func run(a *app.App, c *cobra.Command, o *options) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if err := o.learn(a, c); err != nil {
		return err
	}
	if o.needs.Nodes < 1 {
		return app.UsageError("a job has at least one node", "--nodes: %d is not valid", o.needs.Nodes)
	}
	advice := For(o.needs)
	if done, err := o.output.Structured(a.Out, advice); done {
		return err
	}
	return print(a, advice)
}

// learn finds the needs: flags win over the file that was named or found; without either a person is asked.
func (o *options) learn(a *app.App, c *cobra.Command) error {
	given := o.given(c)
	if given && !c.Flags().Changed("file") {
		return nil
	}
	loaded, err := a.Load(&o.config, config.Options{Up: true})
	switch {
	case err != nil:
		return err
	case loaded.File != "":
		o.fromFile(loaded.Spec, func(flag string) bool { return c.Flags().Changed(flag) })
		return nil
	case !a.InTTY || !a.ErrTTY:
		return app.UsageError("give --nodes and what is true of "+o.flags()+", or -f with a cluster file", "there is nothing to go by")
	}
	return o.ask(a)
}

// given reports whether one of the flags about needs was.
func (o *options) given(c *cobra.Command) bool {
	given := c.Flags().Changed("nodes")
	for _, q := range o.questions() {
		given = given || c.Flags().Changed(q.flag)
	}
	return given
}

func (o *options) flags() string {
	var names []string
	for _, q := range o.questions() {
		names = append(names, "--"+q.flag)
	}
	return strings.Join(names, ", ")
}

// fromFile takes the needs from a cluster file, except those that flags set. What a file says nothing about stays false.
func (o *options) fromFile(s *spec.ClusterSpec, set func(flag string) bool) {
	gpuNodes := 0
	for _, g := range s.NodeGroups() {
		if g.GPUs > 0 {
			gpuNodes += g.Count
		}
	}
	found := Needs{
		TightlyCoupled: gpuNodes > 1 && s.IsGang(), BareMetal: s.Launcher == "slurm", LongLivedServices: s.Job.Entrypoint == "", PythonNative: true, Edge: s.Launcher == "local",
	}
	if !set("nodes") {
		o.needs.Nodes = s.TotalNodes()
	}
	from := (&options{needs: found}).questions()
	for i, q := range o.questions() {
		if !set(q.flag) {
			*q.answer = *from[i].answer
		}
	}
}

// ask asks on the terminal; Enter is 1, or no.
func (o *options) ask(a *app.App) error {
	questions := a.Questions()
	answer := func(text string) string {
		given, _ := questions.Ask(text)
		return strings.ToLower(given)
	}
	for question := "How many nodes has one job? [1] "; ; question = "Write a number, such as 8: " {
		text := answer(question)
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			o.needs.Nodes = n
		} else if text != "" {
			continue
		}
		break
	}
	for _, q := range o.questions() {
		text := answer(q.asked + " [y/N] ")
		*q.answer = text == "y" || text == "yes"
	}
	return questions.Err()
}

// print writes the answer for people.
func print(a *app.App, advice Advice) error {
	gang := "not required"
	switch {
	case advice.GangRequired:
		gang = "required"
	case advice.Primary == slurm:
		gang = "Slurm starts a job's nodes together by itself"
	}
	rows := [][]string{{"control plane", advice.Primary}, {"with", advice.Addon}, {"gang scheduler", gang}}
	if advice.Hybrid != "" {
		rows = append(rows, []string{"besides", advice.Hybrid})
	}
	rows = append(rows, []string{"launcher", advice.Launcher})
	if err := terminal.Table(a.Out, rows); err != nil {
		return err
	}
	text := "\nbecause\n"
	for _, reason := range advice.Reasons {
		text += "  - " + reason + "\n"
	}
	text += "\nrayctl.yaml\n"
	for line := range strings.Lines(advice.ClusterFile) {
		text += "  " + line
	}
	if _, err := fmt.Fprint(a.Out, text); err != nil {
		return err
	}
	a.Next("`" + advice.Next + "`, then set these keys in its rayctl.yaml")
	return nil
}
