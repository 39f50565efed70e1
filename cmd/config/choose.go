package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
)

// sections maps a launcher to its section in the merged files (not variables or flags).
type sections map[string]spec.Origin

func sectionsOf(d *spec.Document) sections {
	out := sections{}
	origins := d.Origins()
	for _, name := range spec.ChosenBySection() {
		if o, ok := origins[name]; ok {
			out[name] = o
		}
	}
	return out
}

// Launchers are the names of the launchers, the one of files that choose none first.
func Launchers() []string {
	names := spec.Launchers()
	slices.SortStableFunc(names, func(a, b string) int {
		switch spec.Fallback() {
		case a:
			return -1
		case b:
			return 1
		default:
			return 0
		}
	})
	return names
}

// chooseLauncher uses the site's, else the explicit choice, else the only section, never what is installed.
func (l *Loaded) chooseLauncher(site Site, found sections) error {
	s, m := l.Spec, l.Manifest
	if site.Launcher != "" {
		s.Launcher, l.Origins["launcher"] = site.Launcher, spec.Origin{Source: "the site"}
	}
	names := slices.DeleteFunc(spec.ChosenBySection(), func(name string) bool { _, ok := found[name]; return !ok })
	s.Launcher = spec.LauncherCalled(s.Launcher)
	switch {
	case m != nil && s.Launcher != "" && s.Launcher != m.Launcher:
		return &spec.Error{File: l.Origins["launcher"].String(), Msg: fmt.Sprintf("a %s can only be launched by %s, not %s", m.Kind, m.Launcher, s.Launcher),
			Hint: "leave the launcher out, or write a cluster file"}
	case m != nil:
		s.Launcher = m.Launcher
		l.chosen(m.File+" is a "+m.Kind, spec.Origin{Source: m.File})
	case s.Launcher != "":
		l.Reason = "chosen by " + l.Origins["launcher"].String()
	case len(names) > 1:
		first, second := names[0], names[1]
		return &spec.Error{File: found[first].String(), Msg: fmt.Sprintf("there is a %s: section, and a %s: section at %s, so the launcher is not clear", first, second, found[second]),
			Hint: fmt.Sprintf("give --launcher %s or --launcher %s, or set launcher:", first, second)}
	case len(names) == 1:
		s.Launcher = names[0]
		l.chosen(place(found[names[0]])+" has a "+names[0]+": section", found[names[0]])
	default:
		s.Launcher = spec.Fallback()
		l.chosen("default launcher", spec.Origin{Source: originDefault})
	}
	return nil
}

// oneOf is "a, b or c".
func oneOf(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (l *Loaded) chosen(why string, o spec.Origin) {
	l.Reason = why
	l.Origins["launcher"] = o
}

func place(o spec.Origin) string {
	if o.Profile != "" {
		return "profile " + o.Profile
	}
	return o.Source
}
