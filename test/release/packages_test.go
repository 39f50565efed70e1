package release

import (
	"debug/elf"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/test/needs"
)

func (s snapshot) testDeb(t *testing.T) {
	file := s.file(t, here, ".deb")
	dir, dpkg := t.TempDir(), needs.Program(t, "dpkg", "dpkg")
	admin := filepath.Join(dir, "var/lib/dpkg")
	for _, name := range []string{"info", "updates"} {
		if err := os.MkdirAll(filepath.Join(admin, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(admin, "status"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Minimal images have dpkg leave out man pages and the like.
	as := []string{dpkg, "--root=" + dir, "--log=" + filepath.Join(t.TempDir(), "log"), "--path-include=/*"}
	run(t, nil, append(as, "--install", file)...)

	about := run(t, nil, "dpkg-query", "--admindir="+admin, "-W", "-f", "${Status}, ${Version}, depends: ${Depends}, recommends: ${Recommends}", "rayctl")
	if want := "install ok installed, " + strings.Replace(s.version, "-", "~", 1) + ", depends: , recommends: python3-venv"; about != want {
		t.Errorf("dpkg says %q, want %q", about, want)
	}
	if changed := run(t, nil, append(as, "--verify", "rayctl")...); changed != "" {
		t.Errorf("dpkg --verify: %s", changed)
	}
	testFiles(t, dir, "var/lib/dpkg", "usr/share/zsh/vendor-completions/_rayctl", "usr/share/doc/rayctl/copyright")
	s.testUse(t, dir, "usr/share/zsh/vendor-completions")

	run(t, nil, append(as, "--purge", "rayctl")...)
	if left := files(t, dir, "var/lib/dpkg"); len(left) > 0 {
		t.Errorf("left after --purge: %v", left)
	}
}

func (s snapshot) testRPM(t *testing.T) {
	file, dir := s.file(t, here, ".rpm"), t.TempDir()
	as := []string{needs.Program(t, "rpm", "rpm"), "--root", dir, "--dbpath", "/var/lib/rpm"}
	run(t, nil, append(as, "--install", "--nodeps", file)...) // nothing else is in dir
	if changed := run(t, nil, append(as, "--verify", "--nodeps", "rayctl")...); changed != "" {
		t.Errorf("rpm --verify: %s", changed)
	}
	testFiles(t, dir, "var/lib/rpm", "usr/share/zsh/site-functions/_rayctl", "usr/share/licenses/rayctl/LICENSE")
	s.testUse(t, dir, "usr/share/zsh/site-functions")

	run(t, nil, append(as, "--erase", "rayctl")...)
	if left := files(t, dir, "var/lib/rpm"); len(left) > 0 {
		t.Errorf("left after --erase: %v", left)
	}
}

// testFiles expects these files in the places that the distributions have for them, of root, and written by root alone.
func testFiles(t *testing.T, dir, database string, places ...string) {
	t.Helper()
	want := map[string]fs.FileMode{"usr/bin/rayctl": 0o755}
	for _, name := range append(places, "usr/share/bash-completion/completions/rayctl", "usr/share/fish/vendor_completions.d/rayctl.fish",
		"usr/share/doc/rayctl/README.md", "usr/share/man/man1/rayctl.1.gz") {
		want[name] = 0o644
	}
	got := files(t, dir, database)
	for name, mode := range got {
		if strings.HasPrefix(name, "usr/share/man/man1/rayctl-") && mode == 0o644 {
			delete(got, name) // docs/share tests that each command has one
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	for _, name := range places[1:] {
		installed, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if licence, err := os.ReadFile(filepath.Join(root, "LICENSE")); err != nil || string(installed) != string(licence) {
			t.Errorf("%s is not our licence: %v", name, err)
		}
	}
}

// files are the modes of all files outside of the package manager's database.
func files(t *testing.T, dir, database string) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == database {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Uid != 0 || s.Gid != 0 {
			t.Errorf("%s is not of root", name)
		}
		if !d.IsDir() {
			found[name] = info.Mode()
		} else if name != "." && info.Mode().Perm()&0o022 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// testUse uses what is installed as users do: the program, Tab in each shell, and man.
func (s snapshot) testUse(t *testing.T, dir, zshFunctions string) {
	t.Helper()
	binary := filepath.Join(dir, "usr/bin/rayctl")
	if out := run(t, nil, binary, "version"); !strings.HasPrefix(out, "rayctl v"+s.version+" (") {
		t.Errorf("rayctl version: %q", out)
	}
	program, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary needs this machine's C library")
		}
	}

	share, home := filepath.Join(dir, "usr/share"), t.TempDir()
	env := []string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_DATA_DIRS=" + share, "LC_ALL=C.UTF-8"}
	for _, c := range []struct {
		shell   string
		command []string
	}{
		{"bash", []string{"--norc", "--noprofile", "-c", tabInBash, "bash", filepath.Join(share, "bash-completion/completions/rayctl")}},
		{"fish", []string{"-c", `complete -C "rayctl vers"`}}, // it has found the file by itself
		{"zsh", []string{"-f", "-c", tabInZsh, "zsh", filepath.Join(dir, zshFunctions)}},
	} {
		out := run(t, env, append([]string{needs.Program(t, c.shell, c.shell)}, c.command...)...)
		if word, _, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(out, ":", "\t")), "\t"); word != "version" {
			t.Errorf("%s completes `rayctl vers` with %q", c.shell, out)
		}
	}
	testMan(t, filepath.Join(share, "man/man1"))
}

// tabInBash completes a word as a press of the Tab key does.
const tabInBash = `
source "$1"
COMP_LINE="rayctl vers" COMP_POINT=11 COMP_CWORD=1
COMP_WORDS=(rayctl vers)
__start_rayctl
echo "${COMPREPLY[@]}"
`

// tabInZsh lets zsh find the function by itself, and prints what it would show.
const tabInZsh = `
fpath=("$1" $fpath)
autoload -Uz compinit
compinit -u -D
_describe() { print -l -- $completions }
words=(rayctl vers) CURRENT=2
${_comps[rayctl]}
`

// testMan renders all pages; -ww are all warnings.
func testMan(t *testing.T, dir string) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(dir, "*.gz"))
	if err != nil {
		t.Fatal(err)
	}
	const render = `groff=$1; shift; gunzip -c "$@" | "$groff" -man -Tascii -P-cbu -rLL=500n -ww 2>&1 > "$RENDERED"`
	file := filepath.Join(t.TempDir(), "rendered")
	warnings := run(t, []string{"RENDERED=" + file}, append([]string{"sh", "-c", render, "sh", needs.Program(t, "groff", "groff-base")}, pages...)...)
	if warnings != "" {
		t.Errorf("groff: %s", warnings)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rendered := strings.Join(strings.Fields(string(text)), " ")
	for _, page := range pages {
		if name := "NAME " + strings.TrimSuffix(filepath.Base(page), ".1.gz") + " - "; !strings.Contains(rendered, name) {
			t.Errorf("the rendered pages have no %q", name)
		}
	}
}
