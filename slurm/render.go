package slurm

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Render returns the batch script and the keeper's orders. Values that are known only at the launch are placeholders: HOME for the home
// directory on the site, which no shell puts in place of a quoted ~, NONCE for the nonce.
func (l *Launcher) Render(s *spec.ClusterSpec) ([]launcher.File, error) {
	s = spec.For(s, slurmspec.Name)
	dir := l.site.Runs.Dir()
	if below, relative := strings.CutPrefix(dir, "~/"); relative {
		dir = "HOME/" + below
	}
	python := s.Ray.Python
	if python == "" {
		python = "python3"
	}
	p := script.Plan{Spec: s, Python: python, Programs: rundir.ProgramsIn(dir), Run: path.Join(dir, "runs", s.Name), Nonce: "NONCE"}
	if err := p.CheckReservation(); err != nil {
		return nil, err
	}
	text, err := p.Script()
	if err != nil {
		return nil, err
	}
	orders, err := json.MarshalIndent(p.Orders(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the orders: %w", err)
	}
	files := []launcher.File{{Name: script.File, Content: []byte(text)}, {Name: keeper.OrdersFile, Content: append(orders, '\n')}}
	companions, err := p.Companions()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(companions)) {
		files = append(files, launcher.File{Name: name, Content: []byte(companions[name])})
	}
	if host := p.Host(); host != "" {
		files = append(files, launcher.File{Name: script.HostFile, Content: []byte(host)})
	}
	return files, nil
}

// RenderNetwork returns none: Slurm has no rules of networks.
func (l *Launcher) RenderNetwork(*spec.ClusterSpec) ([]launcher.File, error) { return nil, nil }
