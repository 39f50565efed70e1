// Package driverend keeps the end of a driver's output, in which Python prints why it failed.
package driverend

import (
	"io"
	"os"
	"regexp"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher/tail"
)

// Output forwards a driver's output and keeps the last part, in which Python prints why it failed.
type Output struct {
	w    io.Writer
	last tail.Tail
}

// size holds the traceback that Ray prints around an error of a task.
const size = 16 << 10

// New passes output on to w.
func New(w io.Writer) *Output {
	return &Output{w: w, last: tail.Tail{Size: size}}
}

func (o *Output) Write(p []byte) (int, error) {
	_, _ = o.last.Write(p) // never fails
	return o.w.Write(p)
}

// Silent reports whether nothing was written.
func (o *Output) Silent() bool { return o.last.String() == "" }

// missingModule matches only names that are harmless in a shell.
var missingModule = regexp.MustCompile(`ModuleNotFoundError: No module named '([A-Za-z][A-Za-z0-9_]*)[.A-Za-z0-9_]*'`)

// rayExtras matches the messages in which Ray's libraries name the packages that they need.
var rayExtras = regexp.MustCompile(`\bray\[[a-z,]{1,40}\]`)

// packageOf has the packages of well-known modules that are named otherwise.
var packageOf = map[string]string{
	"attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless", "dateutil": "python-dateutil", "dotenv": "python-dotenv", "git": "GitPython",
	"PIL": "pillow", "skimage": "scikit-image", "sklearn": "scikit-learn", "yaml": "PyYAML",
}

// HintMissing names the flag that gives a failed driver the module that it misses, if its last output names one. There is no hint for
// ray, which is the cluster's. kept: the packages of the job go into an environment that is kept.
func (o *Output) HintMissing(ui *terminal.UI, kept bool) {
	found := missingModule.FindAllStringSubmatch(o.last.String(), -1)
	if len(found) == 0 {
		return
	}
	module := found[len(found)-1][1]
	where := "on every node"
	if kept {
		where = "once, for all runs with it"
	}
	extras := rayExtras.FindAllString(o.last.String(), -1)
	switch {
	case module == "ray":
	case len(extras) > 0: // Ray's own message names all that the library needs
		ui.Note("Python has no module %s: `--pip '%s'` installs what that part of Ray needs %s", module, extras[len(extras)-1], where)
	case exists(module+".py") || exists(module):
		ui.Note("%s is in this directory, but the driver does not search here: `--working-dir .` sends this directory to every node", module)
	case exists("requirements.txt"):
		ui.Note("Python has no module %s: `-r requirements.txt` installs what that file lists %s, `--pip %s` that package alone", module, where, packageWith(module))
	default:
		ui.Note("Python has no module %s: `--pip %s` installs it %s", module, packageWith(module), where)
	}
}

// HintKilled names the usual reason of a SIGKILL that nothing else explains.
func HintKilled(ui *terminal.UI) {
	ui.Note("If nobody killed it: the kernel ends a process with SIGKILL when memory runs out, which `dmesg` on its node shows. Use less memory, or nodes with more")
}

// packageWith is the package to install for a module, for a shell.
func packageWith(module string) string {
	if name := packageOf[module]; name != "" {
		module = name
	}
	return shellescape.Quote(strings.ReplaceAll(module, "_", "-"))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
