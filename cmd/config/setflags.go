package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/launcher/spec"
)

// setFlags applies the flags that do not simply set one key, --set last.
func (l *loader) setFlags() error {
	steps := []struct {
		flag  string
		apply func(text string, o spec.Origin) error
	}{
		{"workers", l.setWorkers},
		{"min-workers", l.setBound("minReplicas")},
		{"max-workers", l.setBound("maxReplicas")},
		{"cpus-per-worker", l.perWorker("cpus")},
		{"memory-per-worker", l.perWorker("memory")},
		{"gpus-per-worker", l.setGPUs},
		{"env-file", l.setEnvFile},
		{"env", l.setEnv},
		{"label", l.setLabel},
		{"set", l.setAny},
	}
	for _, s := range steps {
		if err := l.each(s.flag, s.apply); err != nil {
			return err
		}
	}
	if l.opts.Entrypoint != "" {
		return l.doc.Set("job.entrypoint", l.opts.Entrypoint, spec.Origin{Source: "the command line"})
	}
	return nil
}

// each applies every value of a flag that addArray made.
func (l *loader) each(flag string, apply func(text string, o spec.Origin) error) error {
	f := lookup(l.opts.Flags, flag)
	if f == nil || !f.Changed {
		return nil
	}
	for _, text := range f.Value.(pflag.SliceValue).GetSlice() {
		if err := apply(text, spec.Origin{Source: "--" + flag, Dir: l.dir}); err != nil {
			return err
		}
	}
	return nil
}

func flagError(o spec.Origin, hint, format string, args ...any) error {
	return &spec.Error{File: o.Source, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// defaultGroup is the group that --workers N makes if the file has none.
const defaultGroup = "worker"

// setWorkers sets the number of workers of a group; MIN:MAX makes it elastic, and it begins with MIN.
func (l *loader) setWorkers(text string, o spec.Origin) error {
	group, n, named := cutGroup(text)
	if dashed := dashedRange.FindStringSubmatch(n); dashed != nil {
		return flagError(o, rangeHint(dashed[1], dashed[2]), "%q is not a number of workers", n)
	}
	if !named && n == "0" && len(l.doc.GroupNames()) == 0 {
		return nil // no group, no workers
	}
	group, err := l.groupOf(group, named, o)
	if err != nil {
		return err
	}
	least, most, ranged := strings.Cut(n, ":")
	if ranged {
		for key, value := range map[string]string{"minReplicas": least, "maxReplicas": most} {
			if err := l.doc.Set("workers."+group+"."+key, value, o); err != nil {
				return err
			}
		}
		if _, chosen := l.doc.Origins()["head.on"]; least == "0" && !chosen { // the head needs a node that stays
			if err := l.doc.Set("head.on", "head", o); err != nil {
				return err
			}
		}
	}
	return l.doc.Set("workers."+group+".replicas", least, o)
}

// dashedRange is a range as other tools write it; a group's size may not be negative.
var dashedRange = regexp.MustCompile(`^([0-9]+)-([0-9]+)$`)

// groupOf is the group that a flag means, which is made if the files have none.
func (l *loader) groupOf(group string, named bool, o spec.Origin) (string, error) {
	groups := l.doc.GroupNames()
	switch {
	case !named && len(groups) == 1:
		group = groups[0]
	case !named && len(groups) > 1:
		return "", flagError(o, "name the group, as in "+o.Source+" "+groups[0]+"=2", "the file has %d worker groups: %s", len(groups), strings.Join(groups, ", "))
	case !named:
		group = defaultGroup
	}
	if slices.Contains(groups, group) {
		return group, nil
	}
	// If the file has groups, the flag must name one; otherwise it makes its own.
	if len(groups) > 0 && l.groupsFromFiles() {
		return "", l.unknownGroup(group, groups, o)
	}
	if err := spec.CheckName(group); err != nil {
		return "", flagError(o, "use lower-case letters, digits and -", "%q cannot be the name of a worker group", group)
	}
	l.doc.AddGroup(group, o)
	return group, nil
}

func (l *loader) groupsFromFiles() bool {
	for path, o := range l.doc.Origins() {
		if strings.HasPrefix(path, "workers.") && strings.HasSuffix(path, ".name") && !strings.HasPrefix(o.Source, "--") {
			return true
		}
	}
	return false
}

func (l *loader) unknownGroup(group string, groups []string, o spec.Origin) error {
	hint := "the groups are " + strings.Join(groups, ", ")
	if near := spec.Nearest(group, groups); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return flagError(o, hint, "there is no worker group %q", group)
}

// cutGroup splits GROUP=VALUE.
func cutGroup(text string) (group, value string, named bool) {
	if group, value, named = strings.Cut(text, "="); !named {
		return "", text, false
	}
	return group, value, true
}

// perWorker sets a key of one group, or of all.
func (l *loader) perWorker(key string) func(string, spec.Origin) error {
	return func(text string, o spec.Origin) error {
		group, value, named := cutGroup(text)
		return l.eachGroup(group, named, o, func(g string) error { return l.doc.Set("workers."+g+"."+key, value, o) })
	}
}

func (l *loader) setGPUs(text string, o spec.Origin) error {
	group, value, named := cutGroup(text)
	kind, count, typed := strings.Cut(value, ":")
	if !typed {
		kind, count = "", value
	}
	return l.eachGroup(group, named, o, func(g string) error {
		if err := l.doc.Set("workers."+g+".gpus", count, o); err != nil || kind == "" {
			return err
		}
		return l.doc.Set("workers."+g+".gpuType", kind, o)
	})
}

func (l *loader) eachGroup(group string, named bool, o spec.Origin, do func(string) error) error {
	groups := l.doc.GroupNames()
	switch {
	case len(groups) == 0:
		return flagError(o, "add --workers 1, or as many as you want", "there are no workers")
	case named && !slices.Contains(groups, group):
		return l.unknownGroup(group, groups, o)
	case named:
		return do(group)
	}
	for _, g := range groups {
		if err := do(g); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) setLabel(text string, o spec.Origin) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return flagError(o, "write KEY=VALUE", "%q is not a label", text)
	}
	return l.doc.Set("labels."+key, value, o)
}

func (l *loader) setAny(text string, o spec.Origin) error {
	path, value, ok := strings.Cut(text, "=")
	if !ok || path == "" {
		return flagError(o, "write it like --set workers.trainer.replicas=2", "%q sets nothing", text)
	}
	if m := numberedGroup.FindStringSubmatch(path); m != nil && !slices.Contains(l.doc.GroupNames(), m[1]+m[2]) {
		return flagError(o, "write --set workers."+l.groupAt(m[1]+m[2])+m[3]+"="+value, "%s: a worker group has a name, and no number", path)
	}
	return l.doc.Set(path, value, o)
}

// numberedGroup matches a key of a worker group that is given by its place.
var numberedGroup = regexp.MustCompile(`^workers(?:\[(\d+)\]|\.(\d+))(\..+)$`)

// groupAt is the name of the group at a place, from 0 on.
func (l *loader) groupAt(place string) string {
	groups := l.doc.GroupNames()
	if i, err := strconv.Atoi(place); err == nil && i < len(groups) {
		return groups[i]
	}
	if len(groups) == 0 {
		return defaultGroup
	}
	return groups[0]
}
