package advise

import (
	"fmt"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher/spec"
)

type options struct {
	config app.ConfigFlags
	needs  Needs
	gpus   int            // of a node; -1: nobody said it
	loaded *config.Loaded // the cluster file, if the needs come from one
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
			"Without flags it goes by the cluster file, or asks on a terminal. It ends with the `rayctl init` line that writes the files, or with the line that launches a file\n" +
			"that is right as it is. It looks for the launcher in your profiles, for sinfo and in the kubeconfig, asks Slurm or Kubernetes for at most 2 s whether it answers (not\n" +
			"Slurm behind ssh or slurmrestd: a login may need a password), and writes nothing.",
		Example: "  rayctl advise\n  rayctl advise --nodes 16 --gpus 8 --tightly-coupled --bare-metal\n  rayctl advise --nodes 8 --python-native --multi-tenant -o json\n  rayctl advise -f rayctl.yaml",
		Args:    app.NoDash(0, "no arguments"),
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return run(a, c, o) // without a context of its own: Ctrl-C ends it, also at a question
	}
	o.config.AddSelection(c)
	c.Flags().IntVar(&o.needs.Nodes, "nodes", 1, "number of nodes of one job: `N`")
	c.Flags().IntVar(&o.gpus, "gpus", -1, "number of GPUs of a node: `N` (default: those of the file, else 8 where several nodes wait for each other and --edge is not given, else 0)")
	c.Flags().Lookup("gpus").DefValue = "0" // which help does not show
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
	if o.gpus < -1 || o.gpus == -1 && c.Flags().Changed("gpus") {
		return app.UsageError("a node has 0 GPUs or more", "--gpus: %d is not valid", o.gpus)
	}
	advice, err := o.advise(a, c)
	if err != nil {
		return err
	}
	if done, err := o.output.Structured(a.Out, advice); done {
		return err
	}
	return print(a, advice)
}

// advise is the whole answer: the rules', what is known of the site, the file and the lines that make it.
func (o *options) advise(a *app.App, c *cobra.Command) (*Advice, error) {
	advice := For(o.needs)
	wanted, err := o.wish(&advice, c)
	if err != nil {
		return nil, err
	}
	profiles, err := config.Profiles(config.Options{Flags: o.config.Flags})
	if err != nil {
		a.UI.Note("your profiles are not considered: %s", app.Sentence(err))
	}
	site, flags := siteOf(c.Context(), a, advice.Launcher, o.loaded, profiles)
	advice.Site = site
	if err := advice.write(wanted, flags); err != nil {
		return nil, err
	}
	if o.asItIs(&advice, c) {
		advice.Launch = o.fileLine(c)
		advice.Next = advice.Launch
	}
	return &advice, nil
}

// asItIs reports whether the cluster file that was read needs no change.
func (o *options) asItIs(advice *Advice, c *cobra.Command) bool {
	return o.loaded != nil && o.loaded.Manifest == nil && advice.Launcher == o.loaded.Spec.Launcher && !o.given(c)
}

// fileLine is the command that launches the cluster of the file that was read, with the flags that selected it.
func (o *options) fileLine(c *cobra.Command) string {
	words := []string{"rayctl", verbOf(o.loaded.Spec)}
	for _, given := range config.GivenSelection(c.Flags()) {
		words = append(words, "--"+given[0], given[1])
	}
	return shellescape.QuoteCommand(words)
}

// wish is what the cluster file is to have: the file's sizes and keys, with what flags change, or those of the answers.
func (o *options) wish(advice *Advice, c *cobra.Command) (wish, error) {
	if o.loaded == nil {
		if o.gpus < 0 {
			o.gpus = 0
			if advice.TightlyCoupled && advice.Nodes > 1 && !advice.Edge {
				o.gpus = assumedGPUs
				advice.because("%d GPUs of a node are assumed, because nobody said how many: --gpus N says it", assumedGPUs)
			}
		}
		return wishOf(advice, o.gpus), nil
	}
	w, err := wishFrom(o.loaded, advice.Launcher)
	if err != nil {
		return w, err
	}
	if c.Flags().Changed("nodes") {
		w.resize(o.needs.Nodes)
	}
	if o.gpus >= 0 {
		w.setGPUs(o.gpus)
	}
	switch {
	case o.loaded.Manifest != nil:
		advice.because("the groups of a %s are not read: --nodes and --gpus say the sizes", o.loaded.Manifest.Kind)
	case advice.Launcher != o.loaded.Spec.Launcher:
		if advice.BareMetal {
			w.takeWholeNodes(advice.Launcher)
		}
	case o.asItIs(advice, c):
		advice.because("the file is for this launcher already: `rayctl %s` launches it as it is", verbOf(o.loaded.Spec))
	}
	return w, nil
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
		o.loaded = loaded
		o.fromFile(loaded.Spec, func(flag string) bool { return c.Flags().Changed(flag) })
		return nil
	case !a.InTTY || !a.ErrTTY:
		return app.UsageError("give --nodes, --gpus and what is true of "+o.flags()+", or -f with a cluster file", "there is nothing to go by")
	}
	return o.ask(a)
}

// given reports whether one of the flags about needs was.
func (o *options) given(c *cobra.Command) bool {
	given := c.Flags().Changed("nodes") || c.Flags().Changed("gpus")
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
	nodes, gpuNodes := 0, 0
	for _, g := range workingGroups(s) {
		nodes += g.Count
		if g.GPUs > 0 {
			gpuNodes += g.Count
		}
	}
	found := Needs{
		TightlyCoupled: gpuNodes > 1 && s.IsGang(), BareMetal: s.Launcher == "slurm", LongLivedServices: s.Job.Entrypoint == "", PythonNative: true, Edge: s.Launcher == "local",
	}
	if !set("nodes") {
		o.needs.Nodes = max(nodes, 1)
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
	number := func(question string, least int, into *int) {
		for ; ; question = "Write a number, such as 8: " {
			text := answer(question)
			if n, err := strconv.Atoi(text); err == nil && n >= least {
				*into = n
			} else if text != "" {
				continue
			}
			return
		}
	}
	number("How many nodes has one job? [1] ", 1, &o.needs.Nodes)
	for _, q := range o.questions() {
		text := answer(q.asked + " [y/N] ")
		*q.answer = text == "y" || text == "yes"
	}
	number("How many GPUs has a node? Enter if you do not know it: ", 0, &o.gpus)
	return questions.Err()
}

// print writes the answer for people.
func print(a *app.App, advice *Advice) error {
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
	if advice.Site != nil {
		rows = append(rows, []string{"from here", advice.Site.Says})
	}
	if err := terminal.Table(a.Out, rows); err != nil {
		return err
	}
	text := "\nbecause\n"
	for _, reason := range advice.Reasons {
		text += "  - " + reason + "\n"
	}
	text += "\nrayctl.yaml has then\n"
	for line := range strings.Lines(advice.ClusterFile) {
		text += "  " + line
	}
	if _, err := fmt.Fprint(a.Out, text); err != nil {
		return err
	}
	steps := []string{"`" + advice.Next + "`"}
	if advice.Launch != advice.Next && strings.Contains(advice.Launch, " --") { // else init says it
		steps = append(steps, "`"+advice.Launch+"`")
	}
	a.Next(steps...)
	return nil
}
