package sizes

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
)

// maxScript bounds what is read of a script.
const maxScript = 1 << 20

// Difference is an option with a number that the cluster file cannot meet; its text is one sentence without the next step.
type Difference struct {
	Option string
	Given  int
	Has    int
	In     string // the script that has it; "" for the command line
	what   string
}

func (d *Difference) Error() string {
	in := "job.entrypoint"
	if d.In != "" {
		in = d.In
	}
	return fmt.Sprintf("%s has %s %d, and the cluster file has at most %d %s", in, d.Option, d.Given, d.Has, d.what)
}

// Check is the first option of the job's command, or of a script beside the cluster file that it names, that wants more than the cluster file ever has; nil if there
// is none. Numbers that are no literals, such as $RAYCTL_GPU_NODES, are not known here and count as right. Fewer nodes or GPUs may be intended.
func Check(s *spec.ClusterSpec) *Difference {
	nodes, gpus := largest(s)
	if nodes == 0 { // without GPUs the file is for something else, or Slurm's nodes bring them
		return nil
	}
	if d := in(s.Job.Entrypoint, "", nodes, gpus); d != nil {
		return d
	}
	for _, word := range strings.Fields(s.Job.Entrypoint) {
		if text := script(s.Job.WorkingDir, word); text != "" {
			if d := in(text, word, nodes, gpus); d != nil {
				return d
			}
		}
	}
	return nil
}

// largest are the nodes with GPUs, elastic ones included, and the GPUs of the largest node.
func largest(s *spec.ClusterSpec) (nodes, gpus int) {
	for _, g := range s.NodeGroups() {
		if g.GPUs > 0 {
			nodes, gpus = nodes+g.Max, max(gpus, g.GPUs)
		}
	}
	return nodes, gpus
}

// script is the text of a shell script in the working directory; "" if the word does not name one.
func script(dir, word string) string {
	word = strings.Trim(word, `'"`)
	if dir == "" || !filepath.IsLocal(word) || (!strings.HasSuffix(word, ".sh") && !strings.HasSuffix(word, ".bash")) {
		return ""
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "" // the upload reports it
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(word)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := root.Open(word)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxScript))
	if err != nil {
		return ""
	}
	return string(text)
}

var comment = regexp.MustCompile(`(?m)(^|\s)#.*$`)

func in(text, where string, nodes, gpus int) *Difference {
	text = comment.ReplaceAllString(text, "")
	for _, o := range options {
		d := &Difference{Option: o.name, In: where, Has: nodes, what: "nodes with GPUs"}
		if o.perNode {
			d.Has, d.what = gpus, "GPUs on a node"
		}
		for _, m := range o.pattern().FindAllStringSubmatch(text, -1) {
			if n, err := strconv.Atoi(m[1]); err == nil && n > d.Has {
				d.Given = n
				return d
			}
		}
	}
	return nil
}

// pattern finds the option with a literal number, after a space or a quote: NAME=8, or for a flag also NAME 8.
func (o option) pattern() *regexp.Regexp {
	between := `=`
	if strings.HasPrefix(o.name, "--") {
		between = `[= ]\s*`
	}
	return regexp.MustCompile(`(?:^|[\s'"])[+]{0,2}` + regexp.QuoteMeta(o.name) + between + `['"]?(\d{1,9})(?:$|[\s'"\\;&|)])`)
}
