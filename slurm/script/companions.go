package script

import (
	"fmt"
	"path"
	"strings"
	"text/template"

	"al.essio.dev/pkg/shellescape"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/templates"
)

// RoleCompanion is what the batch script of a companion job executes: a supervisor of one node.
const RoleCompanion = "slurm-companion"

var companionTemplate = template.Must(template.New("companion.sh").Parse(templates.CompanionScript))

// CompanionName is the name of all companion jobs of a cluster, and of no other jobs.
func CompanionName(name, nonce string) string { return name + "-elastic-" + nonce }

// companions are for elastic groups, whose nodes above those that must be there are jobs of their own.
func (p Plan) companions() *keeper.Companions {
	if !p.Spec.IsElastic() {
		return nil
	}
	c := &keeper.Companions{Name: CompanionName(p.Spec.Name, p.Nonce), Scripts: map[string]string{}}
	for _, g := range p.Spec.NodeGroups() { // a lost node that must be there is replaced, too
		c.Scripts[g.Name] = path.Join(p.Run, companionFile(g.Name))
	}
	return c
}

func companionFile(group string) string { return "elastic-" + group + ".sh" }

// Companions are the batch scripts of companion jobs, by their names in the run's directory. The keeper gives the rest on sbatch's command line.
func (p Plan) Companions() (map[string]string, error) {
	scripts := map[string]string{}
	if !p.Spec.IsElastic() {
		return scripts, nil
	}
	for _, g := range p.Spec.NodeGroups() {
		var b strings.Builder
		err := companionTemplate.Execute(&b, map[string]any{
			"Directives": p.Directives(Component{Request: p.request(g), Nodes: 1}, false), "Python": shellescape.QuoteCommand(p.OnHost(p.HostPython())),
			"Program": quote(path.Join(p.Programs, keeperzip.File)), "Role": RoleCompanion, "RunDir": quote(p.Run),
		})
		if err != nil {
			return nil, fmt.Errorf("render the batch script of group %s: %w", g.Name, err)
		}
		scripts[companionFile(g.Name)] = b.String()
	}
	return scripts, nil
}
