package app

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher/tail"
)

// DriverEnd forwards a driver's output and keeps the last part, in which Python prints why it failed.
type DriverEnd struct {
	w    io.Writer
	last tail.Tail
}

// driverEndSize holds the traceback that Ray prints around an error of a task.
const driverEndSize = 16 << 10

// NewDriverEnd passes output on to w.
func NewDriverEnd(w io.Writer) *DriverEnd {
	return &DriverEnd{w: w, last: tail.Tail{Size: driverEndSize}}
}

func (o *DriverEnd) Write(p []byte) (int, error) {
	_, _ = o.last.Write(p) // never fails
	return o.w.Write(p)
}

// Silent reports whether nothing was written.
func (o *DriverEnd) Silent() bool { return o.last.String() == "" }

// missingModule matches only names that are harmless in a shell.
var missingModule = regexp.MustCompile(`ModuleNotFoundError: No module named '([A-Za-z][A-Za-z0-9_]*)[.A-Za-z0-9_]*'`)

// packageOf has the package on PyPI of well-known modules, where its name is not the module's.
var packageOf = map[string]string{
	"attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless", "dateutil": "python-dateutil", "dotenv": "python-dotenv", "git": "GitPython",
	"PIL": "pillow", "skimage": "scikit-image", "sklearn": "scikit-learn", "yaml": "PyYAML",
}

// Place is where a driver's packages are installed. The zero value: by Ray, on every node.
type Place struct {
	// Kept: the launcher installs them into an environment that it keeps for later runs.
	Kept bool
	// Standing is a cluster of `up` whose environment rayctl makes, so that another environment needs another cluster.
	Standing string
}

func (p Place) words() string {
	switch {
	case p.Kept:
		return "once, for all runs that use the same flag"
	case p.Standing != "":
		return "for one job"
	default:
		return "on every node"
	}
}

// HintMissing tells the user which flag gives a failed driver the module that it misses, if its last output names one. There is no hint for the module ray,
// which the cluster brings.
func (o *DriverEnd) HintMissing(ui *terminal.UI, p Place) {
	last := o.last.String()
	found := missingModule.FindAllStringSubmatchIndex(last, -1)
	if len(found) == 0 {
		return
	}
	at := found[len(found)-1]
	module := last[at[2]:at[3]]
	extra, anew := extraFor(module, last, at[0]), func(string) string { return "" }
	if p.Standing != "" {
		anew = func(flags string) string {
			return "; `rayctl up " + p.Standing + " --recreate " + flags + "` makes the cluster again, with it for all jobs: add the flags that it was made with"
		}
	}
	switch one := "--pip " + packageWith(module); {
	case module == "ray":
	case extra != "":
		ui.Note("Python has no module %s: `--pip '%s'` installs what that part of Ray needs %s%s", module, extra, p.words(), anew("--pip '"+extra+"'"))
	case fileExists(module+".py") || fileExists(module):
		ui.Note("%s is in this directory, but the driver does not search here: `--working-dir .` sends this directory to every node", module)
	case fileExists("requirements.txt"):
		ui.Note("Python has no module %s: `-r requirements.txt` installs what that file lists %s, `%s` that package alone%s", module, p.words(), one, anew("-r requirements.txt"))
	default:
		ui.Note("Python has no module %s: `%s` installs it %s%s", module, one, p.words(), anew(one))
	}
}

// missingFile matches Python's words for ENOENT with the name of a file.
var missingFile = regexp.MustCompile(`No such file or directory: '([^'\n]+)'`)

// MissingFiles are the files that the last output says are not there, the last first.
func (o *DriverEnd) MissingFiles() (paths []string) {
	for _, found := range missingFile.FindAllStringSubmatch(o.last.String(), -1) {
		paths = append(paths, found[1])
	}
	slices.Reverse(paths)
	return paths
}

// HintKilled names the usual reason of a SIGKILL that nothing else explains.
func HintKilled(ui *terminal.UI) {
	ui.Note("If nobody killed the driver: the kernel ends a process with SIGKILL when memory runs out, which `dmesg` on its node shows. Use less memory, or nodes with more")
}

// packageWith is the name of the package that has a module, quoted for a shell.
func packageWith(module string) string {
	if name := packageOf[module]; name != "" {
		module = name
	}
	return shellescape.Quote(strings.ReplaceAll(module, "_", "-"))
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
