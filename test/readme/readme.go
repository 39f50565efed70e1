// Package readme reads README.md: its sessions, which tests repeat on the systems that they are about, and their cluster files.
package readme

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Session is a section of README.md with a cluster file, and what a user has typed and seen.
type Session struct {
	Name, File string // of the cluster file: its name, and its text
	Programs   []Step // those that README.md shows by `cat`, in whichever section
	Steps      []Step // the others
}

// Step is one command with its output, which is that of stdout and stderr together.
type Step struct{ Command, Shown string }

var (
	sections = regexp.MustCompile(`(?m)^## `)
	fileIn   = regexp.MustCompile("(?s)\n```yaml\n# (\\S+)\n(.*?)```\n")
	blocks   = regexp.MustCompile("(?s)\n```text\n(\\$ .*?)```\n")
)

// Sessions are those of README.md, by the titles of their sections. path: of the file.
func Sessions(path string) (map[string]Session, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	found, programs := map[string]Session{}, []Step{}
	for _, section := range sections.Split(string(text), -1)[1:] {
		title, body, _ := strings.Cut(section, "\n")
		file, block := fileIn.FindStringSubmatch(body), blocks.FindStringSubmatch(body)
		if file == nil && block == nil {
			continue
		}
		if file == nil || block == nil {
			return nil, fmt.Errorf("the section %q has a session or a cluster file, but not both", title)
		}
		session := Session{Name: file[1], File: file[2]}
		for part := range strings.SplitSeq("\n"+block[1], "\n$ ") {
			command, shown, _ := strings.Cut(part, "\n")
			name, isProgram := strings.CutPrefix(command, "cat ")
			switch {
			case isProgram:
				programs = append(programs, Step{name, shown + "\n"})
			case command != "":
				session.Steps = append(session.Steps, Step{command, shown})
			}
		}
		found[title] = session
	}
	for title, session := range found {
		session.Programs = programs
		found[title] = session
	}
	return found, nil
}

// Write puts the session's cluster file and the programs into a directory with a function that writes a file there.
func (s Session) Write(write func(name, text string)) {
	write(s.Name, "# "+s.Name+"\n"+s.File)
	for _, program := range s.Programs {
		write(program.Command, program.Shown)
	}
}

// varies is what differs between two runs of the same session, and what stands for it.
var varies = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\b([a-z]+)-[a-z0-9]{5}\b`), "$1-NAME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\dZ?`), "TIME"},
	{regexp.MustCompile(`(job|pid|process) \d+`), "$1 N"},
	{regexp.MustCompile(`(NAME +[a-z]+ +TIME +)\S+( \S+)* {2,}\S+ {2,}`), "${1}TOOK COST "}, // a row of history
	{regexp.MustCompile(`\b(\d+ ?h ?)?(\d+ ?m ?)?\d+(\.\d+)? ?s\b`), "N s"},
	{regexp.MustCompile(`\((queued|provisioning|starting|preparing) N s, .*\bending N s\)`), "(PHASES)"}, // a short one may be missing
	{regexp.MustCompile(`\d+(\.\d+)?( ?(ms|min|node-seconds|GPU-seconds|busy|idle|bytes)\b)`), "N$2"},
	{regexp.MustCompile(`\d+(\.\d+)? (B|KB|KiB)\b`), "N B"},
	{regexp.MustCompile(`/\S*/(rayctl/clusters|\.rayctl/runs)/`), "/DIR/$1/"},
	{regexp.MustCompile(` +`), " "},
}

// passing are lines that say how far a launch is, and Ray's own about its processes: a test may see other moments than README.md shows.
var passing = regexp.MustCompile(`^((Queued|Provisioning|Starting)(: |$)|Ready: Ray prepares |Ending: (pods left|Slurm is releasing)|\x1b\[\d+m\((raylet|autoscaler)\b)`)

// lines are what of an output is the same in each run.
func lines(output string) (same []string) {
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		for _, v := range varies {
			line = v.what.ReplaceAllString(line, v.as)
		}
		if line != "" && !passing.MatchString(line) {
			same = append(same, line)
		}
	}
	return same
}

// Differs says how an output differs from the one that README.md shows; "" if only in times, names of runs and the moments of a launch.
func (s Step) Differs(output string) string {
	want, got := lines(s.Shown), lines(output)
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			return fmt.Sprintf("README.md shows of `%s`:\n%s\nit prints:\n%s", s.Command, s.Shown, output)
		}
	}
	return ""
}
