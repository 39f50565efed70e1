package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// hostile are arguments that a shell would change without quoting.
var hostile = []string{"", " ", "a  b", "new\nline", "tab\t", "$(id)", "`id`", "$HOME", "it's", `"q"`, `back\slash`, "*", "~", "#x", "a=b", "-n", "ünï😀", "\x01", "!!", "{a,b}", "<x>|&;"}

// TestEntrypoint passes hostile arguments to the shell that Ray uses.
func TestEntrypoint(t *testing.T) {
	command, err := entrypoint(append([]string{"printf", `%s\0`}, hostile...))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", command).Output()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Join(hostile, "\x00")+"\x00", string(out)); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"a\x00b", "\xff"} {
		if _, err := entrypoint([]string{bad}); exitCodeOf(err) != runstate.CodeUsage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestCwd: every part of the entrypoint runs in job.cwd, and none does if it cannot be entered.
func TestCwd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "-it's $(here)")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sh := func(cwd string) (string, error) {
		r := submitRequest(&spec.Job{Entrypoint: "pwd & wait; pwd", Cwd: cwd}, &launcher.Packages{})
		out, err := exec.Command("sh", "-c", r.Entrypoint).Output()
		return string(out), err
	}
	if out, err := sh(dir); err != nil || out != dir+"\n"+dir+"\n" {
		t.Errorf("%v, %q", err, out)
	}
	if out, err := sh(dir + "/nosuch"); err == nil || out != "" {
		t.Errorf("%v, %q", err, out)
	}
}

func TestParsePlace(t *testing.T) {
	for text, want := range map[string]place{
		"dev:/tmp/x": {remote: true, cluster: "dev", path: "/tmp/x"},
		":/tmp/a:b":  {remote: true, path: "/tmp/a:b"},
		"./a:b":      {path: "./a:b"},
		"/a:b":       {path: "/a:b"},
		"plain":      {path: "plain"},
	} {
		if got := parsePlace(text); got != want {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}

func TestParsePorts(t *testing.T) {
	for text, want := range map[string]forwardedPort{"8000": {8000, 8000}, "1:2": {1, 2}, ":8000": {0, 8000}} {
		if got, err := parsePorts(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "65536", "a:b", "1:", "1:2:3", "-1"} {
		if got, err := parsePorts(text); exitCodeOf(err) != runstate.CodeUsage {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}

func TestRunOf(t *testing.T) {
	long := strings.Repeat("a", spec.MaxNameLength)
	for _, c := range []struct {
		file, name string
		want       bool
	}{
		{"grpo", "grpo", true}, {"grpo", "grpo-x1f3a", true}, {"grpo", "grpo-x1f3", false}, {"grpo", "grpo2-x1f3a", false},
		{long, runBase(long) + "-abcde", true},
	} {
		if got := runOf(c.file, c.name); got != c.want {
			t.Errorf("%s of %s: %v", c.name, c.file, got)
		}
	}
	if name := runBase(long) + "-" + randomSuffix(); spec.CheckName(name) != nil {
		t.Errorf("%q is no name", name)
	}
}

func TestChoose(t *testing.T) {
	at := func(name string, phase runstate.Phase, minute int) listed {
		return listed{status: launcher.Status{Name: name, Phase: phase, Created: time.Unix(int64(60*minute), 0)}}
	}
	file := &config.Loaded{Spec: &spec.ClusterSpec{Name: "grpo"}, File: "rayctl.yaml"}
	none := &config.Loaded{Spec: &spec.ClusterSpec{Name: "folder"}}
	for _, c := range []struct {
		name string
		all  []listed
		from *config.Loaded
		want string
		code int
	}{
		{"the only one", []listed{at("a", runstate.Ready, 1)}, none, "a", 0},
		{"none", nil, none, "", runstate.CodeSpec},
		{"two", []listed{at("a", runstate.Ready, 1), at("b", runstate.Ready, 2)}, none, "", runstate.CodeUsage},
		{"the file's", []listed{at("a", runstate.Ready, 1), at("grpo", runstate.Ready, 2)}, file, "grpo", 0},
		{"the file's run", []listed{at("a", runstate.Ready, 1), at("grpo-abcde", runstate.Ready, 2)}, file, "grpo-abcde", 0},
		{"two runs", []listed{at("grpo-aaaaa", runstate.Ready, 1), at("grpo-abcde", runstate.Ready, 2)}, file, "", runstate.CodeUsage},
		{"living before ended", []listed{at("a", runstate.Gone, 2), at("b", runstate.Ready, 1)}, none, "b", 0},
		{"the last ended", []listed{at("a", runstate.Gone, 2), at("b", runstate.Gone, 1)}, none, "a", 0},
	} {
		got, _, err := choose(c.all, c.from)
		if got.status.Name != c.want || exitCodeOf(err) != c.code {
			t.Errorf("%s: got %q, %v", c.name, got.status.Name, err)
		}
	}
}

func TestJobExitCode(t *testing.T) {
	code := func(n int) *int { return &n }
	start := time.Unix(1, 0)
	for _, c := range []struct {
		job  dashboardclient.Job
		want int
		own  bool
	}{
		{dashboardclient.Job{Status: dashboardclient.JobSucceeded}, 0, true},
		{dashboardclient.Job{Status: dashboardclient.JobFailed, DriverExitCode: code(3)}, 3, true},
		{dashboardclient.Job{Status: dashboardclient.JobFailed, DriverExitCode: code(-9)}, 137, true},
		{dashboardclient.Job{Status: dashboardclient.JobFailed, StartTime: start, Message: "Job entrypoint command failed with exit code 4, last"}, 4, true},
		{dashboardclient.Job{Status: dashboardclient.JobStopped, DriverExitCode: code(-15)}, runstate.CodeInterrupted, false},
		{dashboardclient.Job{Status: dashboardclient.JobFailed, ErrorType: "RUNTIME_ENV_SETUP_FAILURE", StartTime: start}, runstate.CodeStartFailed, false},
		{dashboardclient.Job{Status: dashboardclient.JobFailed, ErrorType: "JOB_SUPERVISOR_ACTOR_DIED", StartTime: start}, runstate.CodeLost, false},
	} {
		if got, own := jobExitCode(&c.job); got != c.want || own != c.own {
			t.Errorf("%+v: got %d, %v", c.job, got, own)
		}
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		text  string
		lines int
		want  string
	}{
		{"a\nb\nc\n", 2, "b\nc\n"}, {"a\nb\nc", 2, "b\nc"}, {"a\n", 5, "a\n"}, {"", 1, ""}, {"\n\n\n", 2, "\n\n"},
	} {
		tl := &tail{lines: c.lines}
		for i := range len(c.text) {
			if _, err := tl.Write([]byte(c.text[i : i+1])); err != nil {
				t.Fatal(err)
			}
		}
		if got := string(tl.last()); got != c.want {
			t.Errorf("last %d of %q: %q", c.lines, c.text, got)
		}
	}
}

// TestEveryCommandExplainsItself checks the help of every command.
func TestEveryCommandExplainsItself(t *testing.T) {
	a, _, _ := testApp()
	for _, c := range NewRoot(a).Commands() {
		if c.Short == "" || (!c.HasSubCommands() && c.Example == "") {
			t.Errorf("%s lacks help", c.CommandPath())
		}
	}
}
