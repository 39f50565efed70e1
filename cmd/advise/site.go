package advise

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// patience is how long rayctl waits for a site's answer.
const patience = 2 * time.Second

// Site is what this machine knows of the place where the advised launcher would run clusters.
type Site struct {
	Profile   string `json:"profile,omitempty"`   // of the user's configuration
	Context   string `json:"context,omitempty"`   // of the kubeconfig
	Partition string `json:"partition,omitempty"` // the profile's, or Slurm's default
	Reachable *bool  `json:"reachable,omitempty"` // nil: it was not asked
	Says      string `json:"says"`                // one sentence: what is known, and what to do

	title string
	spec  *spec.ClusterSpec // what the profile or the file sets
}

// key is the text at a path of the spec, "" if it is not set.
func (s *Site) key(path string) string {
	file, err := tree(s.spec)
	if err != nil {
		return ""
	}
	if n := at(file, path); n != nil {
		return n.Value
	}
	return ""
}

// siteOf looks for the advised launcher's site: in the cluster file if that is for this launcher, else in the user's profiles, else where the launcher looks by
// itself. It returns the site, nil for this machine, and the flags with which a command uses it.
func siteOf(ctx context.Context, a *app.App, advised string, loaded *config.Loaded, profiles []config.Profile) (*Site, []string) {
	usable, set, ofFile := profiles, &spec.ClusterSpec{}, loaded != nil && loaded.Spec.Launcher == advised
	if ofFile { // the file names the site; a profile that was not applied to the file may name another one
		usable = slices.DeleteFunc(slices.Clone(profiles), func(p config.Profile) bool { return !p.Applies })
		set = loaded.Spec
	}
	chosen, flags := choose(advised, usable)
	if advised == local {
		return nil, flags
	}
	s := &Site{title: spec.SubstrateOf(advised).Title}
	if chosen != nil {
		s.Profile = chosen.Name
		if !ofFile {
			set = chosen.Spec
		}
	}
	s.spec = spec.For(set, advised)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	made, err := a.Launcher(&config.Loaded{Spec: s.spec}) // which reaches nothing yet
	switch {
	case err != nil:
		s.unreachable(app.Sentence(err))
	case advised == slurm:
		s.askSlurm(ctx, made)
	default:
		s.askKubernetes(ctx, made)
	}
	if others := elsewhere(advised, profiles); s.Reachable != nil && !*s.Reachable && others != "" {
		s.Says += "; your profiles lead to " + others
	}
	return s, flags
}

// choose is the profile with which the launcher is used: the one that was named, else the one named default, else the first by name that is for this launcher.
// flags select it, and the launcher where a profile that applies would select another one.
func choose(advised string, profiles []config.Profile) (chosen *config.Profile, flags []string) {
	rank := func(p *config.Profile) int {
		named := p.Applies && p.Name != config.DefaultProfile
		switch {
		case named && (p.Launcher == advised || !p.Chooses):
			return 3
		case p.Launcher != advised:
			return 0
		case p.Applies:
			return 2
		default:
			return 1
		}
	}
	most, another := 0, false
	for i := range profiles {
		p := &profiles[i]
		if r := rank(p); r > most {
			chosen, most = p, r
		}
		another = another || p.Applies && p.Chooses && p.Launcher != advised
	}
	if chosen != nil && chosen.Name != config.DefaultProfile {
		flags = append(flags, "--profile", chosen.Name)
	}
	if another {
		flags = append(flags, "--launcher", advised)
	}
	return chosen, flags
}

// elsewhere are the other launchers that profiles choose: "slurm (hpc)".
func elsewhere(advised string, profiles []config.Profile) string {
	var out []string
	for _, p := range profiles {
		if p.Launcher != "" && p.Launcher != advised {
			out = append(out, p.Launcher+" ("+p.Name+")")
		}
	}
	return strings.Join(out, ", ")
}

// askSlurm asks the controller for its partitions. It does not ask a controller behind ssh or slurmrestd: the login may need a password or a code.
func (s *Site) askSlurm(ctx context.Context, l launcher.Launcher) {
	s.Partition = s.key("slurm.partition")
	if place := cmp.Or(s.key("slurm.host"), s.key("slurm.restUrl")); place != "" {
		s.Says = fmt.Sprintf("Slurm is reached at %s%s; it was not asked, `rayctl doctor` does that", place, s.origin())
		return
	}
	host, able := launcher.As[launcher.HostExecer](l)
	if !able {
		return
	}
	var out, said bytes.Buffer
	code, err := host.ExecOnHost(ctx, launcher.ExecRequest{Command: []string{"sinfo", "--noheader", "--format=%P"}, Stdout: &out, Stderr: &said})
	switch {
	case ctx.Err() != nil:
		s.unreachable("its controller did not answer within " + patience.String() + ": `rayctl doctor --launcher slurm` waits for it")
	case err != nil:
		s.unreachable("there is no `sinfo` here: use rayctl on a login node, or set slurm.host to one in a profile of your configuration")
	case code != 0:
		s.unreachable("sinfo says \"" + strings.Join(strings.Fields(said.String()), " ") + "\": `rayctl doctor --launcher slurm` looks at each part")
	default:
		s.Partition = cmp.Or(s.Partition, defaultPartition(out.String()))
		s.answers()
	}
}

// defaultPartition is the partition that sinfo marks with *; "" if there is none.
func defaultPartition(list string) string {
	for _, name := range strings.Fields(list) {
		if name, marked := strings.CutSuffix(name, "*"); marked {
			return name
		}
	}
	return ""
}

// askKubernetes asks the API server for your clusters, which needs KubeRay there.
func (s *Site) askKubernetes(ctx context.Context, l launcher.Launcher) {
	s.Context = cmp.Or(s.key("kuberay.context"), currentContext(s.key("kuberay.kubeconfig")))
	asked := make(chan error, 1)
	go func() { // List may outlive ctx: a credential plug-in of the kubeconfig does not end with it
		_, err := l.List(ctx, launcher.Selector{})
		asked <- err
	}()
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-asked:
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		s.unreachable("its API server did not answer within " + patience.String() + ": `rayctl doctor --launcher kuberay` waits for it")
	case err != nil:
		s.unreachable(app.Sentence(err))
	default:
		s.answers()
	}
}

// currentContext is the kubeconfig's; "" where there is none, as in a pod.
func currentContext(kubeconfig string) string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	raw, err := rules.Load()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

func (s *Site) answers() {
	yes := true
	s.Reachable, s.Says = &yes, s.title+" answers here"+s.origin()
}

// unreachable says why, with the next step.
func (s *Site) unreachable(why string) {
	no := false
	s.Reachable, s.Says = &no, s.title+" cannot be reached from this machine"+s.origin()+", because "+why
}

// origin names in brackets what led to the site: profile, context, partition. "" if nothing did.
func (s *Site) origin() string {
	var found []string
	for _, f := range [][2]string{{"profile", s.Profile}, {"context", s.Context}, {"partition", s.Partition}} {
		if f[1] != "" {
			found = append(found, f[0]+" "+f[1])
		}
	}
	if found == nil {
		return ""
	}
	return " (" + strings.Join(found, ", ") + ")"
}
