package needs

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cases are programs and what 3.6 says of them in the last line: all that it prints, or how it fails.
var cases = []struct{ name, program, want string }{
	{"version", "import sys; print(*sys.version_info[:2]); assert sys.version_info < (3, 8) and sys.version_info.major == 3", "3 6"},
	{"arguments", "import sys; print(sys.argv[1:])", "['a', '-c']"},
	{"own syntax", "async def f():\n    return [x async for x in y]\nz: int = 1\nprint(f'{z}')", "1"},
	{"walrus", "print(y := 1)", "SyntaxError"},
	{"positional only", "def f(a, /): pass", "SyntaxError"},
	{"match", "match 1:\n    case 1: pass", "SyntaxError"},
	{"annotations", "from __future__ import annotations", "SyntaxError"},
	{"a module", "import dataclasses", "ModuleNotFoundError"},
	{"part of a package", "from importlib import metadata", "Error"},
	{"a module that may lack", "try:\n    import contextvars\nexcept ImportError:\n    print('without')", "without"},
	{"a function", "import time; time.time_ns()", "AttributeError"},
	{"a name", "from shlex import join", "ImportError"},
	{"text", "import subprocess; subprocess.run(['true'], text=True)", "TypeError"},
	{"captures", "import subprocess; subprocess.run(['true'], capture_output=True)", "TypeError"},
	{"pipes", "import subprocess; print(subprocess.check_output(['echo', 'x'], universal_newlines=True), end='')", "x"},
	{"the library's own", "import asyncio, socket, time; loop = asyncio.new_event_loop(); print(loop.run_until_complete(asyncio.sleep(0, 7)))", "7"},
}

// TestStandIn: it runs what 3.6 runs, and rejects what 3.6 rejects, as text, as a file or as a part of a zip file; a real one does the same.
func TestStandIn(t *testing.T) {
	programs := map[string]string{"stand-in": standInPython36(t, "")}
	if found := FindPython(t.Context(), "3.6"); found != "" {
		programs["real"] = found
	}
	for kind, python := range programs {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			for i, c := range cases {
				file, archive := filepath.Join(dir, "program.py"), filepath.Join(dir, "zip")
				if err := os.WriteFile(file, []byte(c.program), 0o600); err != nil {
					t.Fatal(err)
				}
				pack(t, archive, map[string]string{"part.py": c.program, "__main__.py": "import part"})
				args := slices.Concat([][]string{{"-c", c.program}, {"-E", "-s", file}, {"-u", "-S", archive}}[i%3], []string{"a", "-c"})
				out, err := exec.CommandContext(t.Context(), python, args...).CombinedOutput()
				lines := strings.Split(strings.TrimSpace(string(out)), "\n")
				last, _, _ := strings.Cut(lines[len(lines)-1], ":")
				if fails := strings.HasSuffix(c.want, "Error"); fails == (err == nil) || fails && !strings.HasSuffix(last, c.want) || !fails && lines[len(lines)-1] != c.want {
					t.Errorf("%s by %q: %v, %s, want %s", c.name, args[0], err, out, c.want)
				}
			}
			if out, err := exec.CommandContext(t.Context(), python, "--version").Output(); err != nil || !strings.HasPrefix(string(out), "Python 3.6.") {
				t.Errorf("--version: %q, %v", out, err)
			}
		})
	}
}

// pack writes a zip file.
func pack(t *testing.T, name string, files map[string]string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := zip.NewWriter(f)
	for name, text := range files {
		part, err := w.Create(name)
		if err == nil {
			_, err = part.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
