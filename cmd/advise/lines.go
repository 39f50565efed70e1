package advise

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"go.yaml.in/yaml/v3"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/templates/workloads"
)

// clusterFileName is the name of the cluster file in each template.
const clusterFileName = "rayctl.yaml"

// parameters has, for keys of a worker group, the template parameter of the same meaning.
var parameters = map[string]string{"replicas": "nodes", "gpus": "gpus", "cpus": "cpus"}

// write fills in the advice: the keys of the cluster file, the `rayctl init` line that writes the file, and the line that launches the cluster. flags select the
// user's site.
func (a *Advice) write(w wish, flags []string) error {
	t, err := templateNamed(a.template)
	if err != nil {
		return err
	}
	set, left := w.split(t)
	made, files, err := render(t, append(slices.Clone(set), "launcher="+a.Launcher))
	if err != nil {
		return err
	}
	its := made.Workers[0]
	if w.groups[0].name == "" {
		w.groups[0].name = its.Name
	}
	options, err := w.options(left, its)
	if err != nil {
		return err
	}
	if a.ClusterFile, err = a.clusterFile(w); err != nil {
		return err
	}
	dir, err := freeDir(files, t.Keeps, a.Launcher)
	if err != nil {
		return err
	}
	if dir != "" {
		name, err := w.projectName()
		if err != nil {
			return err
		}
		set = append(set, "name="+name)
	}
	a.Next = initLine(a.template, dir, a.Launcher, set)
	a.Launch = launchLine(dir, made, append(flags, options...))
	return nil
}

func templateNamed(name string) (*workloads.Template, error) {
	all, err := workloads.Builtin()
	if err != nil {
		return nil, err
	}
	t := workloads.Named(all, name)
	if t == nil {
		return nil, fmt.Errorf("this rayctl has no template %s", name)
	}
	return t, nil
}

// split divides the keys of the largest group into set, the parameters that the template takes, as KEY=VALUE, and left, the keys that it does not take. A template
// makes one group: if the wish has several, the template's nodes are those of all groups.
func (w *wish) split(t *workloads.Template) (set []string, left []setting) {
	for _, key := range w.groups[w.largest()].keys {
		value := key.value.Value
		if key.path == "replicas" {
			value = strconv.Itoa(w.nodes())
		}
		pair := parameters[key.path] + "=" + value
		if key.value.Kind == yaml.ScalarNode && takes(t, append(slices.Clone(set), pair)) {
			set = append(set, pair)
		} else {
			left = append(left, key)
		}
	}
	return set, left
}

// takes reports whether the template has these parameters and accepts their values.
func takes(t *workloads.Template, set []string) bool {
	values, err := t.Values(set, "name")
	return err == nil && t.CheckValues(values) == nil
}

// render returns the cluster file that the template writes with these parameters, and the names of all files that it writes.
func render(t *workloads.Template, set []string) (made *spec.ClusterSpec, names []string, err error) {
	values, err := t.Values(set, "name")
	if err != nil {
		return nil, nil, err
	}
	files, err := t.Files(values)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		names = append(names, f.Name)
		if f.Name == clusterFileName {
			if made, err = spec.Decode(bytes.NewReader(f.Content), f.Name); err != nil {
				return nil, nil, err
			}
		}
	}
	if made == nil || len(made.Workers) == 0 {
		return nil, nil, fmt.Errorf("the template %s has no %s with workers", t.Name, clusterFileName)
	}
	return made, names, nil
}

// options returns the --set flags for the keys that the template does not take. its is the worker group that the template makes.
func (w *wish) options(left []setting, its spec.WorkerGroup) (out []string, err error) {
	var keys []setting
	switch {
	case len(w.groups) > 1 || w.namesGroup():
		keys = append(keys, setting{"workers", w.workers()})
	default:
		for _, s := range left {
			keys = append(keys, setting{"workers." + its.Name + "." + s.path, s.value})
		}
		if w.wholeNodes() && its.CPUs != 0 && !slices.ContainsFunc(w.groups[0].keys, func(s setting) bool { return s.path == "cpus" }) {
			keys = append(keys, setting{"workers." + its.Name + ".cpus", number(0)}) // all CPUs of the node
		}
	}
	for _, s := range append(keys, w.rest...) {
		text, err := s.text()
		if err != nil {
			return nil, err
		}
		out = append(out, "--set", s.path+"="+text)
	}
	return out, nil
}

// namesGroup reports whether head.on names a worker group, which then must keep its name.
func (w *wish) namesGroup() bool {
	return slices.ContainsFunc(w.rest, func(s setting) bool { return s.path == "head.on" && s.value.Value != spec.HeadGroupName })
}

// workers is the list of the groups.
func (w *wish) workers() *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
	for _, g := range w.groups {
		list.Content = append(list.Content, mapping(append([]setting{{"name", scalar("!!str", g.name)}}, g.keys...)...))
	}
	return list
}

// clusterFile returns the text of a cluster file with only the keys that the advice sets.
func (a *Advice) clusterFile(w wish) (string, error) {
	top := []setting{{"launcher", scalar("!!str", a.Launcher)}}
	for _, s := range w.rest {
		section, key, nested := strings.Cut(s.path, ".")
		if last := &top[len(top)-1]; nested && last.path == section {
			last.value.Content = append(last.value.Content, scalar("!!str", key), s.value)
			continue
		}
		if nested {
			s = setting{section, mapping(setting{key, s.value})}
		}
		top = append(top, s)
	}
	if a.GangRequired || a.Launcher == slurm {
		gang := scalar("!!bool", "true")
		gang.LineComment = "# all nodes or none, as by default"
		top = append(top, setting{"gang", gang})
	}
	doc := mapping(append(top, setting{"workers", w.workers()})...)
	doc.Style = 0
	text, err := yaml.Marshal(doc)
	return string(text), err
}

// freeDir returns a new directory for the files if the current directory already has one of them; else "".
func freeDir(files, keeps []string, launcher string) (string, error) {
	taken := func(file string) bool {
		_, err := os.Lstat(file)
		return !errors.Is(err, os.ErrNotExist)
	}
	if !slices.ContainsFunc(files, func(f string) bool { return !slices.Contains(keeps, f) && taken(f) }) {
		return "", nil
	}
	for n := 1; n < 1000; n++ {
		dir := launcher
		if n > 1 {
			dir += "-" + strconv.Itoa(n)
		}
		if !taken(dir) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("this directory already has %s and the directories %s to %s-999: change to another directory", clusterFileName, launcher, launcher)
}

// projectName returns the name of the clusters, for files in another directory than the current one: they would be named after that.
func (w *wish) projectName() (string, error) {
	dir, err := os.Getwd()
	return cmp.Or(w.name, spec.NameFrom(filepath.Base(dir))), err
}

func initLine(template, dir, launcher string, set []string) string {
	words := []string{"rayctl", "init", template}
	if dir != "" {
		words = append(words, "--dir", dir)
	}
	words = append(words, "--launcher", launcher)
	for _, pair := range set {
		words = append(words, "--set", pair)
	}
	return shellescape.QuoteCommand(words)
}

// verbOf returns the verb that launches a file's cluster: run if the file has a job, else up.
func verbOf(s *spec.ClusterSpec) string {
	if s.Job.Entrypoint == "" {
		return "up"
	}
	return "run"
}

// launchLine is the command that launches the cluster of the files.
func launchLine(dir string, made *spec.ClusterSpec, options []string) string {
	line := shellescape.QuoteCommand(append([]string{"rayctl", verbOf(made)}, options...))
	if dir != "" {
		line = "cd " + shellescape.Quote(dir) + " && " + line
	}
	return line
}
