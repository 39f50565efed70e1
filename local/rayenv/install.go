package rayenv

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/clientfiles"
	"github.com/rayctl/rayctl/local/uvtool"
)

// make builds the environment from nothing. The children inherit the lock: if this process is killed, nobody else begins
// before they ended too.
func (m managed) make(ctx context.Context, lock *os.File) error {
	if err := m.empty(); err != nil {
		return err
	}
	begun := time.Now()
	m.progress(fmt.Sprintf("making a Python environment with %s (once; kept in %s)", shown(m.requirements), m.dir))
	tool := m.installer(ctx)
	in := installation{managed: m, lockFile: lock, tool: tool}
	if tool.Path != "" {
		in.cache, in.detail = cacheOf(ctx, tool), oneAtATime(m.detail)
	}
	fromLock, err := in.install(ctx)
	if err != nil {
		return err
	}
	if err := m.note(fromLock); err != nil {
		return err
	}
	m.progress("made the Python environment in " + launcher.Human(time.Since(begun).Seconds()))
	return nil
}

// installer is uv, unless the user forbids it or it cannot be brought: then pip installs, and the user is told why.
func (m managed) installer(ctx context.Context) uvtool.Tool {
	if !m.uv {
		return uvtool.Tool{}
	}
	tool, err := uvtool.Source{Python: m.python.Path, CacheDir: m.cacheDir, Progress: m.progress}.Get(ctx)
	if err != nil && ctx.Err() == nil {
		m.progress(fmt.Sprintf("pip installs, which takes longer than uv: %v", err))
	}
	return tool
}

// empty makes the directory anew.
func (m managed) empty() error {
	if err := os.RemoveAll(m.dir); err != nil {
		return writeFailed(m.dir, err)
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return writeFailed(m.dir, err)
	}
	return nil
}

// note writes the marker. Only an environment that began with the lock may be the beginning of others.
func (m managed) note(fromLock bool) error {
	n := note{Requirements: m.requirements, Python: m.python.minor(), Dir: m.dir}
	if fromLock {
		n.Lock, n.Wishes, n.Options, n.Distributions = keyOf(m.lock, nil), wishes(m.requirements[1:]), wishes(options(m.requirements[1:])), distributions(m.dir)
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(m.dir, marker), text, 0o644); err != nil {
		return writeFailed(m.dir, err)
	}
	return nil
}

// installation makes one environment with one tool.
type installation struct {
	managed
	lockFile *os.File
	tool     uvtool.Tool
	cache    string // of uv, where what it fetches can be counted; "": not known
}

// Files in an environment, which show what was asked for.
const (
	lockedFile  = "rayctl-lock.txt"
	wantedFile  = "rayctl-requirements.txt"
	projectFile = "rayctl-uv-lock.txt"
)

// install begins with a kept environment or the lock, and installs on top of it what else is wanted. It reports whether the lock is in it.
func (in installation) install(ctx context.Context) (fromLock bool, err error) {
	fromLock, err = in.grow(ctx)
	if err == nil && !fromLock {
		fromLock, err = in.fresh(ctx)
	}
	if err != nil || fromLock && len(in.requirements) == 1 { // Ray alone, which the lock has
		return fromLock, err
	}
	lines, err := in.withProjects(ctx)
	if err != nil {
		return false, err
	}
	before := distributions(in.dir)
	if err := in.packages(ctx, wantedFile, strings.Join(lines, "\n")+"\n"); err != nil {
		return false, err
	}
	if changed := replaced(before, distributions(in.dir)); fromLock && len(changed) > 0 {
		in.progress("the packages change what rayctl's lock of Ray has: " + strings.Join(changed, ", "))
	}
	return fromLock, nil
}

// fresh makes the virtual environment and installs the lock with its hashes. It reports whether there is a lock, of which the index has all.
func (in installation) fresh(ctx context.Context) (fromLock bool, err error) {
	if err := in.run(ctx, in.venv()); err != nil || in.lock == "" {
		return false, err
	}
	return in.installLock(ctx)
}

// venv is the command that makes the virtual environment, which has pip. -I keeps PYTHONPATH and the user's site packages out; pip's and uv's own variables (PIP_*,
// UV_*, proxies) count.
func (in installation) venv() []string {
	if uv := in.tool.Path; uv != "" {
		return []string{uv, "venv", "--no-project", "--allow-existing", "--seed", "--python", in.from(), in.dir}
	}
	return []string{in.python.Path, "-I", "-m", "venv", in.dir}
}

// from is the interpreter, or its version, which uv then brings.
func (in installation) from() string { return cmp.Or(in.python.Path, in.python.minor()) }

// installLock installs the lock. It reports false, with a note, where the index does not have what the lock names. A file with another content is an error.
func (in installation) installLock(ctx context.Context) (bool, error) {
	err := in.packages(ctx, lockedFile, locked(in.lock, in.requirements), "--require-hashes")
	switch why := fmt.Sprint(err); {
	case err == nil:
		return true, nil
	case ctx.Err() == nil && lockMissing.MatchString(why):
		in.progress("the package index does not have all that rayctl's lock of Ray names, so that the newest packages are installed, without hashes")
		return false, nil
	}
	return false, err
}

// packages installs the lines of a requirements file that it writes into the environment.
func (in installation) packages(ctx context.Context, name, lines string, options ...string) error {
	file := filepath.Join(in.dir, name)
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		return writeFailed(in.dir, err)
	}
	argv := []string{interpreterIn(in.dir), "-I", "-m", "pip", "install", "--no-input", "--progress-bar=off"}
	if uv := in.tool.Path; uv != "" {
		argv = []string{uv, "pip", "install", "--python", interpreterIn(in.dir)}
		if compiles() {
			argv = append(argv, "--compile-bytecode")
		}
	}
	return in.run(ctx, slices.Concat(argv, options, []string{"-r", file}))
}

// compiles reports whether uv is to compile modules: where Python keeps nothing that it compiles, as in many containers, each of a node's processes would compile Ray
// anew, at each start. pip compiles by itself.
func compiles() bool { return os.Getenv("PYTHONDONTWRITEBYTECODE") != "" }

// withProjects are the wanted lines, those of uv.lock files replaced by the requirements that uv exports from them.
func (in installation) withProjects(ctx context.Context) ([]string, error) {
	lines := slices.Clone(in.requirements)
	for i, line := range lines {
		named := clientfiles.ParseLine(line)
		if !named.Lock {
			continue
		}
		lock := named.File
		if in.tool.Path == "" {
			return nil, launcher.Fail(runstate.CodeConfig, nil, "allow uv (local.uv), or write requirements with `uv export -o requirements.txt` and give these", "only uv can install %s, and pip installs here", lock)
		}
		file := filepath.Join(in.dir, projectFile)
		argv := []string{in.tool.Path, "export", "--quiet", "--frozen", "--no-emit-project", "--no-dev", "--no-header", "--python", in.from(), "--project", filepath.Dir(lock), "--output-file", file}
		if err := in.run(ctx, argv); err != nil {
			return nil, err
		}
		lines[i] = "-r " + projectFile // beside it
	}
	return lines, nil
}

func (in installation) interrupted(ctx context.Context) error {
	return launcher.Fail(runstate.CodeInterrupted, ctx.Err(), "", "interrupted while installing %s", in.requirements[0])
}

// distributions are the versions of the packages in an environment, by name.
func distributions(dir string) map[string]string {
	out := map[string]string{}
	found, err := filepath.Glob(filepath.Join(globQuoted(dir), "lib", "python*", "site-packages", "*.dist-info"))
	if err != nil {
		return out
	}
	for _, path := range found {
		name, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".dist-info"), "-")
		out[name] = version
	}
	return out
}

// globQuoted is a path whose characters mean themselves in a pattern.
func globQuoted(path string) string {
	return regexp.MustCompile(`[\\*?[]`).ReplaceAllString(path, `\$0`)
}

// replaced are the packages that have another version than before, as "protobuf 7.36.2 to 4.25.3".
func replaced(before, after map[string]string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now, ok := after[name]; ok && now != before[name] {
			out = append(out, fmt.Sprintf("%s %s to %s", name, before[name], now))
		}
	}
	return out
}

// run runs one step. Where the package index cannot be reached, uv tries again with what it has in its cache.
func (in installation) run(ctx context.Context, argv []string) error {
	why, err := in.step(ctx, argv)
	if err == nil || ctx.Err() != nil {
		return in.explain(ctx, why, err)
	}
	if in.tool.Path == argv[0] && unreachable.MatchString(why) {
		if _, again := in.step(ctx, append(slices.Clone(argv), "--offline")); again == nil {
			in.detail("the package index cannot be reached: installed from uv's cache")
			return nil
		}
	}
	return in.explain(ctx, why, err)
}

// unreachable matches uv's reasons for which its cache may help.
var unreachable = regexp.MustCompile(`(?i)error sending request|Request failed after|Failed to fetch|dns error|connection refused|operation timed out`)

// step runs one command with the tool's variables beside the user's, reports its progress, and returns the reason of its failure as far as the command gave one.
func (in installation) step(ctx context.Context, argv []string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), in.tool.Env...)
	cmd.ExtraFiles = []*os.File{in.lockFile}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // pip's children end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	said := make(chan string)
	arrived := newArrivals(in.cache, in.detail)
	defer arrived.end()
	go func() { said <- in.listen(r, arrived.heard) }()
	err := cmd.Run()
	_ = w.Close() // never fails (io.PipeWriter)
	return <-said, err
}

// explain turns a step's failure into one sentence.
func (in installation) explain(ctx context.Context, why string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return in.interrupted(ctx)
	case errors.Is(err, exec.ErrNotFound) || why == "":
		why = err.Error()
	}
	why = in.ofTheUser(why)
	return launcher.Fail(runstate.CodeConfig, err, hintFor(why), "cannot install %s: %s", shown(in.requirements), why)
}

var (
	uvPosition = regexp.MustCompile("in `[^`]*`(?: at position ([0-9]+))")
	lineNumber = regexp.MustCompile(`(?:\(from line ([0-9]+) of [^)]*\)|: [^ ]*` + regexp.QuoteMeta(wantedFile) + `:([0-9]+):[0-9]+)`)
)

// ofTheUser names the user's file and line in place of the file that was written for the installer, or beside the package that is the reason.
func (in installation) ofTheUser(why string) string {
	text := strings.Join(in.requirements, "\n")
	at := func(line string) string { return cmp.Or(clientfiles.ParseLine(line).Origin, "local.packages") }
	if m := uvPosition.FindStringSubmatchIndex(why); m != nil {
		if n, err := strconv.Atoi(why[m[2]:m[3]]); err == nil && n <= len(text) {
			line := in.requirements[strings.Count(text[:n], "\n")]
			return why[:m[0]] + "in " + at(line) + why[m[1]:]
		}
	}
	if m := lineNumber.FindStringSubmatch(why); m != nil {
		if n, err := strconv.Atoi(m[1] + m[2]); err == nil && 1 <= n && n <= len(in.requirements) {
			return lineNumber.ReplaceAllLiteralString(why, " ("+at(in.requirements[n-1])+")")
		}
	}
	return why + source(why, in.requirements)
}

// listen passes each line and the progress on, and returns the installer's own reason of a failure, as far as it gave one.
func (m managed) listen(r io.Reader, heard func(line string)) string {
	var failed reason
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			failed.add(line)
			heard(line)
			if text := condense(line); text != "" {
				m.detail(text)
			}
		}
		if err != nil {
			break
		}
	}
	return failed.String()
}

// reason is why an installer failed: pip's first line with ERROR, or uv's line with error and its causes; else the last line.
type reason struct {
	first, last string
	causes      []string
}

func (r *reason) add(line string) {
	r.last = line
	text, pip := strings.CutPrefix(line, "ERROR: ")
	if uv, ok := strings.CutPrefix(line, "error: "); ok {
		text, pip = uv, true
	}
	if pip && r.first == "" {
		r.first = text
	}
	if cause, ok := strings.CutPrefix(line, "cause: "); ok && r.first != "" {
		r.causes = append(r.causes, cause)
	}
}

func (r *reason) String() string {
	said := []string{cmp.Or(r.first, r.last)}
	switch n := len(r.causes); {
	case n > 0 && strings.HasPrefix(r.first, "No solution found"):
		said = r.causes[:1]
	case n > 1:
		said = append(said, r.causes[0], r.causes[n-1])
	case n == 1:
		said = append(said, r.causes[0])
	}
	return strings.TrimSuffix(strings.Join(said, ": "), ".")
}

var (
	downloading = regexp.MustCompile(`^Downloading (?:.*/)?([^/ ]+?)(?:-py[23][^ ]*|-cp[^ ]*)?(?:\.whl|\.tar\.gz)?(?:\.metadata)? \(([0-9.]+) ?(.*)\)$`)
	installing  = regexp.MustCompile(`^Installing collected packages: (.*)$`)
	uvInstalled = regexp.MustCompile(`^Installed \d+ packages?`)
	uvSteps     = regexp.MustCompile(`^(Resolved|Prepared|Installed) \d+ packages?`)
)

// condense turns a line of pip's or uv's output into progress for the user; "": it is none.
func condense(line string) string {
	if m := downloading.FindStringSubmatch(line); m != nil && !strings.Contains(line, ".metadata ") {
		return fmt.Sprintf("downloading %s (%s %s)", m[1], m[2], m[3])
	}
	if m := installing.FindStringSubmatch(line); m != nil {
		return fmt.Sprintf("installing %d packages", strings.Count(m[1], ",")+1)
	}
	if m := uvInstalled.FindString(line); m != "" && compiles() {
		return strings.ToLower(m[:1]) + m[1:] + ", compiling their modules"
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
	case strings.Contains(why, "Hash mismatch"), strings.Contains(why, "DO NOT MATCH THE HASHES"):
		return "the index has other files than PyPI; where it builds its own, local.lock: false takes what it has"
	case strings.Contains(why, "No space left"):
		return "free space there, or set XDG_CACHE_HOME to a larger disk"
	default:
		return "try again, or make an environment yourself and name it in ray.python"
	}
}
