package rayenv

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// make builds the environment from nothing. The children inherit the lock: if this process is killed, nobody else begins
// before they ended too.
func (m managed) make(ctx context.Context, lock *os.File) error {
	if err := os.RemoveAll(m.dir); err != nil {
		return writeFailed(m.dir, err)
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return writeFailed(m.dir, err)
	}
	begun := time.Now()
	m.progress(fmt.Sprintf("making a Python environment with %s (once; kept in %s)", strings.Join(m.requirements, ", "), m.dir))
	tool := m.installer(ctx)
	for _, argv := range m.steps(tool.path) {
		if err := m.run(ctx, lock, argv, tool.env); err != nil {
			return err
		}
	}
	text, err := json.Marshal(note{Requirements: m.requirements, Python: m.python.minor(), Dir: m.dir})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(m.dir, marker), text, 0o644); err != nil {
		return writeFailed(m.dir, err)
	}
	m.progress("made the Python environment in " + launcher.Human(time.Since(begun).Seconds()))
	return nil
}

// steps are the commands that make the environment, with uv or, where that is "", with pip. -I keeps PYTHONPATH and the user's site packages out; pip's and uv's own
// variables (PIP_*, UV_*, proxies) count. The environment has pip in both cases, and is compiled, as pip does by itself: where PYTHONDONTWRITEBYTECODE is set, as in many
// containers, each of a node's twenty processes would compile Ray anew, which takes it twice the processor time.
func (m managed) steps(uv string) [][]string {
	if uv != "" {
		from := m.python.Path
		if from == "" {
			from = m.python.minor()
		}
		return [][]string{
			{uv, "venv", "--no-project", "--allow-existing", "--seed", "--python", from, m.dir},
			append([]string{uv, "pip", "install", "--compile-bytecode", "--python", interpreterIn(m.dir), "--"}, m.requirements...),
		}
	}
	return [][]string{
		{m.python.Path, "-I", "-m", "venv", m.dir},
		append([]string{interpreterIn(m.dir), "-I", "-m", "pip", "install", "--no-input", "--progress-bar=off", "--"}, m.requirements...),
	}
}

// run runs one step with env beside the user's variables, reports its progress, and turns its failure into one sentence.
func (m managed) run(ctx context.Context, lock *os.File, argv, env []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // pip's children end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	said := make(chan string)
	go func() { said <- m.listen(r) }()
	err := cmd.Run()
	_ = w.Close() // never fails (io.PipeWriter)
	why := <-said
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return launcher.Fail(runstate.CodeInterrupted, ctx.Err(), "", "interrupted while installing %s", m.requirements[0])
	case errors.Is(err, exec.ErrNotFound) || why == "":
		why = err.Error()
	}
	return launcher.Fail(runstate.CodeConfig, err, hintFor(why), "cannot install %s: %s", strings.Join(m.requirements, ", "), why)
}

// listen passes progress on and returns the installer's own reason of a failure, as far as it gave one.
func (m managed) listen(r io.Reader) string {
	var reason, last string
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			last = line
			if text, ok := strings.CutPrefix(line, "ERROR: "); ok && reason == "" { // pip's first is its reason, uv's is its last line
				reason = text
			}
			if text := condense(line); text != "" {
				m.detail(text)
			}
		}
		if err != nil {
			break
		}
	}
	if reason == "" {
		reason = last
	}
	return strings.TrimSuffix(strings.TrimPrefix(reason, "cause: "), ".")
}

var (
	downloading = regexp.MustCompile(`^Downloading (?:.*/)?([^/ ]+?)(?:-py[23][^ ]*|-cp[^ ]*)?(?:\.whl|\.tar\.gz)?(?:\.metadata)? (\(.*\))$`)
	installing  = regexp.MustCompile(`^Installing collected packages: (.*)$`)
	uvSteps     = regexp.MustCompile(`^(Resolved|Prepared|Installed) \d+ packages?`)
)

// condense turns a line of pip's or uv's output into progress for the user; "": it is none.
func condense(line string) string {
	if m := downloading.FindStringSubmatch(line); m != nil && !strings.Contains(line, ".metadata ") {
		return "downloading " + m[1] + " " + m[2]
	}
	if m := installing.FindStringSubmatch(line); m != nil {
		return fmt.Sprintf("installing %d packages", strings.Count(m[1], ",")+1)
	}
	if uvSteps.MatchString(line) {
		return strings.ToLower(line[:1]) + line[1:]
	}
	return ""
}

func hintFor(why string) string {
	switch {
	case strings.Contains(why, "No matching distribution"), strings.Contains(why, "satisfies the requirement"), strings.Contains(why, "not found in the package registry"):
		return "check ray.version and local.packages, and whether this machine reaches the package index (PIP_INDEX_URL, proxies)"
	case strings.Contains(why, "No space left"):
		return "free space there, or set XDG_CACHE_HOME to a larger disk"
	default:
		return "try again, or make an environment yourself and name it in ray.python"
	}
}
