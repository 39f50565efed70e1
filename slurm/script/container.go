package script

import (
	"path"
	"slices"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// container is what the supervisors run in; nil without one. The keeper makes the runtime's arguments of it, on the head's node, where it looks
// which directories are there (keeper/rayctl_keeper/node/container.py).
func (p Plan) container() *keeper.Container {
	if !slurmspec.InContainer(p.Spec) {
		return nil
	}
	c := slurmspec.Of(p.Spec)
	out := &keeper.Container{Runtime: c.ContainerRuntime, Image: c.ContainerImage, Where: p.visible()}
	if c.ContainerRuntime != "pyxis" { // enroot's hooks see by the node's devices what a container needs
		out.Args = p.gpuFlags()
	}
	out.Args = append(out.Args, c.ContainerArgs...)
	for _, dir := range slices.Compact([]string{p.Run, p.Programs}) {
		out.Binds = append(out.Binds, keeper.Bind{Source: dir, Target: dir})
	}
	for _, m := range p.Spec.Mounts {
		out.Binds = append(out.Binds, keeper.Bind{Source: slurmspec.Source(m.Source.Sections), Target: m.MountPath, ReadOnly: m.ReadOnly})
	}
	return out
}

// visible are directories of the nodes that the file names, and that drivers and Ray must find there.
func (p Plan) visible() (out []string) {
	j := p.Spec.Job
	dirs := []string{j.Cwd}
	if j.OutputDir != "" && !spec.IsURI(j.OutputDir) {
		dirs = append(dirs, path.Clean(j.OutputDirFor(p.Spec.Name)))
	}
	for _, g := range p.Spec.NodeGroups() {
		dirs = append(dirs, g.ObjectSpillingDirectory)
	}
	for _, dir := range dirs {
		if dir != "" && dir != path.Join(p.Run, rundir.OutputName) {
			out = append(out, dir)
		}
	}
	return out
}

// gpuFlags are the arguments of Apptainer that bring the drivers of the nodes' GPUs. Of those that a node does not have, it only warns.
func (p Plan) gpuFlags() (out []string) {
	flags := map[string]bool{}
	for _, g := range p.Spec.NodeGroups() {
		if g.GPUs > 0 {
			flags[slurmspec.VendorOf(p.Spec, g.GPUType)] = true
		}
	}
	if flags["nvidia"] {
		out = append(out, "--nv")
	}
	if flags["amd"] {
		out = append(out, "--rocm")
	}
	return out
}
