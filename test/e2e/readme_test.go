package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readmeCommands are the lines of shell of README.md, in order, without their comments: those of blocks below "## Use", and what follows a $ elsewhere.
func readmeCommands(t *testing.T) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	section, inBlock := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch title, isTitle := strings.CutPrefix(line, "## "); {
		case strings.HasPrefix(line, "```"):
			inBlock = !inBlock
		case isTitle:
			section = title
		case !inBlock:
		case section == "Use":
			command, _, _ := strings.Cut(line, "  #")
			commands = append(commands, strings.TrimSpace(command))
		default:
			if command, isCommand := strings.CutPrefix(line, "$ "); isCommand {
				commands = append(commands, command)
			}
		}
	}
	return commands
}

// readmeFiles are the cluster files of README.md, by the names in their first lines.
func readmeFiles(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)\n```yaml\n# (\\S+)\n(.*?)```\n").FindAllStringSubmatch(string(text), -1) {
		files[m[1]] = m[2]
	}
	return files
}

// TestReadme runs the lines of README.md, as a user types them one after another in a new home. Those of other launchers are rendered, and so are its cluster files;
// the lines that install are tests of test/release.
func TestReadme(t *testing.T) {
	u := newUser(t)
	state := t.TempDir()
	u.env = []string{"XDG_STATE_HOME=" + state, "XDG_CACHE_HOME=" + state + "/cache", "PATH=" + filepath.Dir(home.rayctl) + ":" + os.Getenv("PATH")}
	u.write("train.py", "import ray\nray.init(log_to_driver=False)\nprint('nodes:', len(ray.nodes()))\n")
	u.write("a.py", "print('hello')\n")
	defer u.want(0, "down", "--all", "--now")
	var script strings.Builder
	script.WriteString("set -e\n")
	files := readmeFiles(t)
	if len(files) != 3 {
		t.Errorf("README.md has %d cluster files", len(files))
	}
	u.write("files/train.py", "")
	for name, text := range files {
		script.WriteString("rayctl render --name shown -f " + u.write(filepath.Join("files", name), text) + " >/dev/null\n")
	}
	ran := 0
	for _, command := range readmeCommands(t) {
		if strings.Contains(command, "--launcher ") {
			command = regexp.MustCompile(`\brayctl run\b`).ReplaceAllString(command, "rayctl render --name shown")
			command += " >/dev/null"
		}
		script.WriteString(command + "\n")
		ran++
	}
	if ran < 7 {
		t.Fatalf("README.md has %d commands: %s", ran, &script)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-xc", script.String())
	c.Dir, c.Env = u.dir, environment(u.python, u.env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	contains(t, "the output", string(out), "nodes: 2", "succeeded   python train.py", "hello\n", "SUCCEEDED")
}
