package sizes

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rayctl/rayctl/launcher/spec"
)

// maxContent bounds what is read of a file.
const maxContent = 1 << 20

// Difference is an option with a number that the cluster file cannot meet; its text is one sentence without the next step.
type Difference struct {
	Option string
	Given  int
	Has    int
	In     string // the file that has it; "" for the command line
	what   string
}

func (d *Difference) Error() string {
	in := "job.entrypoint"
	if d.In != "" {
		in = d.In
	}
	return fmt.Sprintf("%s has %s %d, and the cluster file has at most %d %s", in, d.Option, d.Given, d.Has, d.what)
}

// Check is the first option of the job's command, of a script beside the cluster file that it names, or of a file of YAML that one of them names, that wants more
// than the cluster file ever has; nil if there is none. Numbers that are no literals, such as $RAYCTL_GPU_NODES, are not known here and count as right. Fewer
// nodes or GPUs may be intended.
func Check(s *spec.ClusterSpec) *Difference {
	has := largest(s)
	if has[nodes] == 0 { // without GPUs the file is for something else, or Slurm's nodes bring them
		return nil
	}
	if d := has.lessThan(s.Job.Entrypoint, "", s.Job.WorkingDir); d != nil {
		return d
	}
	for _, word := range strings.Fields(s.Job.Entrypoint) {
		word = strings.Trim(word, `'"`)
		if !strings.HasSuffix(word, ".sh") && !strings.HasSuffix(word, ".bash") {
			continue
		}
		if d := has.lessThan(content(s.Job.WorkingDir, word), word, s.Job.WorkingDir); d != nil {
			return d
		}
	}
	return nil
}

// limits are the largest numbers of a cluster file.
type limits map[size]int

// largest counts elastic nodes, too.
func largest(s *spec.ClusterSpec) limits {
	has := limits{}
	for _, g := range s.NodeGroups() {
		if g.GPUs > 0 {
			has[nodes] += g.Max
			has[gpusOfAll] += g.Max * g.GPUs
			has[gpusOfOne] = max(has[gpusOfOne], g.GPUs)
		}
	}
	return has
}

// content is the text of a file in the working directory; "" if it cannot be read, which the upload reports.
func content(dir, name string) string {
	if dir == "" || !filepath.IsLocal(name) {
		return ""
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxContent))
	if err != nil {
		return ""
	}
	return string(text)
}

var (
	comment  = regexp.MustCompile(`(?m)(^|\s)#.*$`)
	yamlName = regexp.MustCompile(`(?:^|[\s'"=])([\w.-][\w./-]*\.ya?ml)\b`)
	interval = regexp.MustCompile(`\brange\(\s*(?:\d+\s*,\s*)?(\d+)\s*\)`) // of Python; its end is the number of GPUs
)

// lessThan is the first option in a command's text, or in the files of YAML that it names, that wants more than the limits.
func (has limits) lessThan(text, where, dir string) *Difference {
	text = comment.ReplaceAllString(text, "")
	for _, o := range options {
		for _, m := range o.pattern().FindAllStringSubmatch(text, -1) {
			if d := has.compare(o, m[1], where); d != nil {
				return d
			}
		}
	}
	for _, m := range yamlName.FindAllStringSubmatch(text, -1) {
		var config map[string]any
		if yaml.Unmarshal([]byte(content(dir, m[1])), &config) != nil {
			continue // the framework reports it
		}
		for _, o := range options {
			if d := has.compare(o, value(config, o.name), m[1]); d != nil {
				return d
			}
		}
	}
	return nil
}

// value is the text at a dotted key of a configuration; "" if there is none.
func value(config map[string]any, key string) string {
	first, rest, inside := strings.Cut(key, ".")
	if below, is := config[first].(map[string]any); is && inside {
		return value(below, rest)
	}
	if found := config[first]; found != nil && !inside {
		return fmt.Sprint(found)
	}
	return ""
}

// compare is the difference if the text is a number above the limit.
func (has limits) compare(o option, text, where string) *Difference {
	if m := interval.FindStringSubmatch(text); m != nil && o.size == gpusOfAll {
		text = m[1]
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= has[o.size] {
		return nil
	}
	what := map[size]string{nodes: "nodes with GPUs", gpusOfOne: "GPUs on a node", gpusOfAll: "GPUs"}[o.size]
	return &Difference{Option: o.name, In: where, Given: n, Has: has[o.size], what: what}
}

// pattern finds the option with a literal number, after a space or a quote: NAME=8, or for a flag also NAME 8.
func (o option) pattern() *regexp.Regexp {
	between := `=`
	if strings.HasPrefix(o.name, "--") {
		between = `[= ]\s*`
	}
	return regexp.MustCompile(`(?:^|[\s'"])[+]{0,2}` + regexp.QuoteMeta(o.name) + between + `['"]?(\d{1,9})(?:$|[\s'"\\;&|)])`)
}
