package config

import (
	"fmt"

	"github.com/rayctl/rayctl/launcher/spec"
)

// sections maps a launcher to its section in the merged files (not variables or flags).
type sections map[string]spec.Origin

func sectionsOf(d *spec.Document) sections {
	out := sections{}
	origins := d.Origins()
	for _, name := range []string{spec.LauncherSlurm, spec.LauncherKubeRay} {
		if o, ok := origins[name]; ok {
			out[name] = o
		}
	}
	return out
}

// chooseLauncher uses the explicit choice, else the only section, never what is installed.
func (l *loader) chooseLauncher(s *spec.ClusterSpec, found sections) error {
	slurm, hasSlurm := found[spec.LauncherSlurm]
	kuberay, hasKubeRay := found[spec.LauncherKubeRay]
	m := l.out.Manifest
	switch {
	case m != nil && s.Launcher != "" && s.Launcher != spec.LauncherKubeRay:
		return &spec.Error{File: l.out.Origins["launcher"].String(), Msg: fmt.Sprintf("a %s can only be launched by kuberay, not %s", m.Kind, s.Launcher),
			Hint: "leave the launcher out, or write a cluster file"}
	case m != nil:
		s.Launcher = spec.LauncherKubeRay
		l.because(s, m.File+" is a "+m.Kind, spec.Origin{Source: m.File})
	case s.Launcher != "":
		l.out.Reason = s.Launcher + ", because " + saidBy(l.out.Origins["launcher"])
	case hasSlurm && hasKubeRay:
		return &spec.Error{File: slurm.String(), Msg: fmt.Sprintf("there is a slurm: section, and a kuberay: section at %s, so the launcher is not clear", kuberay),
			Hint: "give --launcher slurm or --launcher kuberay, or set launcher:"}
	case hasSlurm:
		s.Launcher = spec.LauncherSlurm
		l.because(s, place(slurm)+" has a slurm: section", slurm)
	case hasKubeRay:
		s.Launcher = spec.LauncherKubeRay
		l.because(s, place(kuberay)+" has a kuberay: section", kuberay)
	default:
		s.Launcher = spec.LauncherLocal
		l.because(s, "nothing says slurm or kuberay", spec.Origin{Source: originDefault})
	}
	return nil
}

func (l *loader) because(s *spec.ClusterSpec, why string, o spec.Origin) {
	l.out.Reason = s.Launcher + ", because " + why
	l.out.Origins["launcher"] = o
}

func place(o spec.Origin) string {
	if o.Profile != "" {
		return "profile " + o.Profile
	}
	return o.Source
}

func saidBy(o spec.Origin) string {
	if o.Line > 0 || o.Profile != "" {
		return o.String() + " says so"
	}
	return o.Source + " was given"
}
