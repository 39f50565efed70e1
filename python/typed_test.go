package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/needs"
)

// mypy is the program that `make mypy` installs from PyPI.
func mypy(t *testing.T) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), needs.Program(t, "make", "make"), "-s", "mypy")
	c.Dir, c.Env = "..", append(os.Environ(), "MAKEFLAGS=")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// typed is what mypy --strict says of files, "" if it finds nothing; they see the package, and of Ray only that there is one.
func typed(t *testing.T, mypy, cache string, files ...string) string {
	t.Helper()
	config := filepath.Join(cache, "mypy.ini")
	if err := os.WriteFile(config, []byte("[mypy]\n[mypy-ray.*]\nignore_missing_imports = True\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--strict", "--python-version", "3.8", "--config-file", config, "--cache-dir", cache, "--no-error-summary", "--hide-error-context"}
	c := exec.CommandContext(t.Context(), mypy, append(args, files...)...)
	c.Env = append(os.Environ(), "MYPYPATH=.")
	out, err := c.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(out)
}

// documented are the programs of docs/python.md, one after the other, as one file.
func documented(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "python.md"))
	if err != nil {
		t.Fatal(err)
	}
	var program strings.Builder
	blocks := regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	for _, block := range blocks {
		program.WriteString(block[1])
	}
	if len(blocks) < 3 {
		t.Fatalf("docs/python.md has %d programs", len(blocks))
	}
	path := filepath.Join(t.TempDir(), "documented.py")
	if err := os.WriteFile(path, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTyped: the package, a program that uses all of it, and those of docs/python.md have the types that they claim, by mypy --strict; wrong uses do not.
func TestTyped(t *testing.T) {
	program, cache := mypy(t), t.TempDir()
	if said := typed(t, program, cache, "rayctl", filepath.Join("tests", "sample.py"), documented(t)); said != "" {
		t.Errorf("mypy --strict:\n%s", said)
	}
	const wrong = `import rayctl
job: rayctl.Submitted = rayctl.wait("run")
receipt: rayctl.Receipt = rayctl.wait("cluster", "job")
seconds: str = rayctl.run(["true"]).receipt["durations"]["driver"]
rayctl.status()["nosuch"]
rayctl.run(["true"], env={"SEED": 1})
rayctl.logs("run").encode()
`
	path := filepath.Join(t.TempDir(), "wrong.py")
	if err := os.WriteFile(path, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	said := typed(t, program, cache, path)
	if found := len(regexp.MustCompile(`(?m)wrong\.py:[2-7]: error: `).FindAllString(said, -1)); found != 6 {
		t.Errorf("mypy finds %d of 6 wrong lines:\n%s", found, said)
	}
}

// TestSample: the typed program uses each public function of the package.
func TestSample(t *testing.T) {
	sample, err := os.ReadFile(filepath.Join("tests", "sample.py"))
	if err != nil {
		t.Fatal(err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	const list = `import inspect, rayctl
for name in rayctl.__all__:
    value = getattr(rayctl, name)
    if inspect.isfunction(value):
        print(name, len(inspect.getdoc(value) or "") > 100)`
	c := exec.CommandContext(t.Context(), python, "-B", "-c", list)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	functions := strings.Fields(string(out))
	if len(functions) < 20 {
		t.Fatalf("the package has few functions: %s", out)
	}
	for i := 0; i < len(functions); i += 2 {
		if !strings.Contains(string(sample), "rayctl."+functions[i]+"(") {
			t.Errorf("tests/sample.py does not use rayctl.%s", functions[i])
		}
		if functions[i+1] != "True" {
			t.Errorf("rayctl.%s has no docstring, or a short one", functions[i])
		}
	}
}
