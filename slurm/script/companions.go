package script

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"al.essio.dev/pkg/shellescape"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// RoleCompanion is what the batch script of a companion job executes: a supervisor of one node, or those of a gang.
const RoleCompanion = "slurm-companion"

// GangFile is what the batch script of an early head's gang is called in the run's directory.
const GangFile = "gang.sh"

var companionTemplate = template.Must(template.New("companion.sh").Parse(companionScript))

// HasCompanions reports whether a cluster may have jobs besides its own.
func HasCompanions(s *spec.ClusterSpec) bool { return s.IsElastic() || s.Head.Early }

// CompanionName is the name of all companion jobs of a cluster, and of no other jobs.
func CompanionName(s *spec.ClusterSpec, nonce string) string {
	if s.Head.Early {
		return s.Name + "-workers-" + nonce
	}
	return s.Name + "-elastic-" + nonce
}

// companions are for elastic groups, whose nodes above the required ones are jobs of their own, and for the gang of an early head.
func (p Plan) companions() *keeper.Companions {
	if !HasCompanions(p.Spec) {
		return nil
	}
	c := &keeper.Companions{Name: CompanionName(p.Spec, p.Nonce), Scripts: map[string]string{}, Minutes: map[string]int{},
		Commented: slurmspec.Of(p.Spec).Comment != ""}
	if p.Spec.Head.Early {
		c.Scripts[keeper.Gang] = path.Join(p.Run, GangFile)
	}
	if p.Spec.IsElastic() {
		for _, g := range p.Spec.NodeGroups() { // a lost required node is replaced, too
			c.Scripts[g.Name] = path.Join(p.Run, CompanionFile(g.Name))
			if limit := p.companionLimit(g); limit > 0 {
				c.Minutes[g.Name] = max(1, int(limit/time.Minute))
			}
		}
	}
	return c
}

// companionLimit is how long a companion job of a group may run: as slurm.extraArgs set it, and no longer than one of its partitions allows. 0: there is no limit.
func (p Plan) companionLimit(g spec.NodeGroup) (limit time.Duration) {
	r := p.request(g)
	for _, part := range PartitionsOf(r.Slurm.Partition, p.partitions) {
		if part.Time > 0 && (limit == 0 || part.Time < limit) {
			limit = part.Time
		}
	}
	for _, a := range r.Slurm.ExtraArgs {
		if text, ok := strings.CutPrefix(a, "--time="); ok {
			if own := timeLimit(text); own > 0 && (limit == 0 || own < limit) {
				limit = own
			}
		}
	}
	return limit
}

// timeLimit reads what sbatch's --time takes: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds.
// 0: it is none of these, which sbatch refuses.
func timeLimit(text string) time.Duration {
	units := []time.Duration{time.Minute, time.Second}
	days, clock, dayed := strings.Cut(text, "-")
	var limit time.Duration
	if dayed {
		n, err := strconv.Atoi(days)
		if err != nil {
			return 0
		}
		limit, text, units = time.Duration(n)*24*time.Hour, clock, []time.Duration{time.Hour, time.Minute, time.Second}
	}
	parts := strings.Split(text, ":")
	if !dayed && len(parts) == 3 {
		units = []time.Duration{time.Hour, time.Minute, time.Second}
	}
	if len(parts) > len(units) {
		return 0
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return 0
		}
		limit += time.Duration(n) * units[i]
	}
	return limit
}

// CompanionFile is the batch script of a group's companion jobs in the run's directory.
func CompanionFile(group string) string { return "elastic-" + group + ".sh" }

// Companions are the batch scripts of companion jobs, by their names in the run's directory. The keeper gives the rest on sbatch's command line.
func (p Plan) Companions() (map[string]string, error) {
	scripts := map[string]string{}
	var err error
	if p.Spec.Head.Early {
		if scripts[GangFile], err = p.companion(p.gangDirectives()); err != nil {
			return nil, fmt.Errorf("render the gang's batch script: %w", err)
		}
	}
	if !p.Spec.IsElastic() {
		return scripts, nil
	}
	for _, g := range p.Spec.NodeGroups() {
		if scripts[CompanionFile(g.Name)], err = p.companion([][]string{p.elasticDirectives(g)}); err != nil {
			return nil, fmt.Errorf("render the batch script of group %s: %w", g.Name, err)
		}
	}
	return scripts, nil
}

// Granted are the names of the scripts of companion jobs for which Slurm has to be asked beyond the cluster's own job: the gang's, and one of each kind of elastic
// group.
func (p Plan) Granted() (names []string) {
	if p.Spec.Head.Early {
		names = append(names, GangFile)
	}
	var kinds [][]string
	for _, g := range p.Spec.NodeGroups() {
		if !g.Elastic() {
			continue
		}
		kind := p.elasticDirectives(g)
		if !slices.ContainsFunc(kinds, func(k []string) bool { return slices.Equal(k, kind) }) {
			kinds, names = append(kinds, kind), append(names, CompanionFile(g.Name))
		}
	}
	return names
}

// companion is a batch script with these directives, by component.
func (p Plan) companion(components [][]string) (string, error) {
	var b strings.Builder
	err := companionTemplate.Execute(&b, map[string]any{
		"Components": components, "Python": shellescape.QuoteCommand(p.OnHost(p.HostPython())),
		"Program": quote(path.Join(p.Programs, keeperzip.File)), "Role": RoleCompanion, "RunDir": quote(p.Run),
	})
	return b.String(), err
}

// OfCompanion are the components of the jobs that a companion's batch script is for, by its name in the run's directory; none of a script that the cluster does not have.
func (p Plan) OfCompanion(file string) []Component {
	if file == GangFile {
		return p.Gang()
	}
	if !p.Spec.IsElastic() {
		return nil
	}
	for _, g := range p.Spec.NodeGroups() {
		if file == CompanionFile(g.Name) {
			return []Component{{Request: p.request(g), Nodes: 1}}
		}
	}
	return nil
}

// GangComment is the comment of the gang's job.
func (p Plan) GangComment() string {
	return cmp.Or(slurmspec.Of(p.Spec).Comment, "rayctl gang of "+p.Spec.Name)
}

// elasticDirectives are those of the jobs of an elastic group's nodes. A site may require a certain comment, and licences, of every job.
func (p Plan) elasticDirectives(g spec.NodeGroup) []string {
	var own []string
	if comment := slurmspec.Of(p.Spec).Comment; comment != "" {
		own = append(own, "--comment="+quote(comment))
	}
	return p.directives(p.OfCompanion(CompanionFile(g.Name))[0], true, own)
}

// gangDirectives are those of the gang's job. What the command line of sbatch has is for the first component alone: all have the name, by which the job is found.
func (p Plan) gangDirectives() (out [][]string) {
	for i, c := range p.Gang() {
		own := []string{"--job-name=" + quote(CompanionName(p.Spec, p.Nonce)), "--no-requeue"}
		if i == 0 {
			own = append(own, "--comment="+quote(p.GangComment()), p.warningDirective())
		}
		out = append(out, p.directives(c, i == 0, own))
	}
	return out
}
