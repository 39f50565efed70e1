package app

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher/spec"
)

// maxScript is the size up to which a file is looked into: no script that a person writes is larger.
const maxScript = 1 << 20

// scriptText is the text of a script; "" where there is none.
func scriptText(file string) string {
	if st, err := os.Stat(file); err != nil || !st.Mode().IsRegular() || st.Size() > maxScript {
		return ""
	}
	data, _ := os.ReadFile(file)
	return string(data)
}

// interpreterOf is the program that runs a script, by its name or its first line; "": the file may be anything.
func interpreterOf(file string) string {
	if filepath.Ext(file) == ".py" {
		return "python"
	}
	return config.Shell(file, []byte(scriptText(file)))
}

// fromScript is the error for a batch script in place of a command, where a cluster file can be made of it; nil: it is none.
func fromScript(file string) error {
	if _, startsRay := config.BatchScript(file, []byte(scriptText(file))); !startsRay {
		return nil
	}
	return UsageError(initFrom(file), "%s is a batch script that starts Ray itself, not a command", file)
}

func initFrom(file string) string {
	return "`rayctl init --from " + shellescape.Quote(file) + "` makes the rayctl.yaml of it, which `rayctl run` runs"
}

// warnScript warns of a command that runs a batch script: rayctl has started Ray already, and nothing reads the script's sizes.
func (a *App) warnScript(j *spec.Job) {
	script := shellScriptOf(j.Entrypoint)
	if script == "" {
		return
	}
	file := script
	if !filepath.IsAbs(file) {
		file = filepath.Join(cmp.Or(j.Cwd, j.WorkingDir), file)
	}
	switch sbatch, startsRay := config.BatchScript(file, []byte(scriptText(file))); {
	case startsRay:
		a.UI.Warn("%s starts Ray itself, and here it runs once, on a cluster that has Ray already; nothing reads its sizes: %s", script, initFrom(script))
	case sbatch:
		a.UI.Warn("nothing reads the #SBATCH lines of %s: it runs once, on the head: --workers, --cpus-per-worker and --gpus-per-worker or a rayctl.yaml size the cluster (`rayctl help coming-from`)", script)
	}
}

// shellScriptOf is the script that a command runs by a shell, or itself; "" if the command may mean anything else.
func shellScriptOf(command string) string {
	words := strings.Fields(command)
	for len(words) > 1 && (config.IsShell(filepath.Base(words[0])) || strings.HasPrefix(words[0], "-") && words[0] != "-c") {
		words = words[1:]
	}
	if len(words) == 0 || strings.HasPrefix(words[0], "-") || strings.ContainsAny(words[0], shellLetters) {
		return ""
	}
	return words[0]
}
