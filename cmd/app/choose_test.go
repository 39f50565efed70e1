package app

import (
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

func TestRunOf(t *testing.T) {
	long := strings.Repeat("a", spec.MaxNameLength)
	for _, c := range []struct {
		file, name string
		want       bool
	}{
		{"grpo", "grpo", true}, {"grpo", "grpo-x1f3a", true}, {"grpo", "grpo-x1f3", false}, {"grpo", "grpo2-x1f3a", false},
		{long, runBase(long) + "-abcde", true},
	} {
		if got := RunOf(c.file, c.name); got != c.want {
			t.Errorf("%s of %s: %v", c.name, c.file, got)
		}
	}
	if name := RunName(long); spec.CheckName(name) != nil {
		t.Errorf("%q is no name", name)
	}
}

func TestChoose(t *testing.T) {
	at := func(name string, phase runstate.Phase, minute int) Listed {
		return Listed{Status: launcher.Status{Name: name, Phase: phase, Created: time.Unix(int64(60*minute), 0)}}
	}
	file := &config.Loaded{Spec: &spec.ClusterSpec{Name: "grpo"}, File: "rayctl.yaml"}
	elsewhere := func(name string) bool { return name == "of-another-file" }
	none := &config.Loaded{Spec: &spec.ClusterSpec{Name: "folder"}}
	for _, c := range []struct {
		name string
		all  []Listed
		from *config.Loaded
		want string
		code int
	}{
		{"the only one", []Listed{at("a", runstate.Ready, 1)}, none, "a", 0},
		{"none", nil, none, "", runstate.CodeSpec},
		{"two", []Listed{at("a", runstate.Ready, 1), at("b", runstate.Ready, 2)}, none, "", runstate.CodeUsage},
		{"the file's", []Listed{at("a", runstate.Ready, 1), at("grpo", runstate.Ready, 2)}, file, "grpo", 0},
		{"the file's run", []Listed{at("a", runstate.Ready, 1), at("grpo-abcde", runstate.Ready, 2)}, file, "grpo-abcde", 0},
		{"two runs", []Listed{at("grpo-aaaaa", runstate.Ready, 1), at("grpo-abcde", runstate.Ready, 2)}, file, "", runstate.CodeUsage},
		{"living before ended", []Listed{at("a", runstate.Gone, 2), at("b", runstate.Ready, 1)}, none, "b", 0},
		{"the last ended", []Listed{at("a", runstate.Gone, 2), at("b", runstate.Gone, 1)}, none, "a", 0},
		{"the last ended without a file here", []Listed{at("of-another-file", runstate.Gone, 2)}, none, "of-another-file", 0},
		{"the last ended of another file", []Listed{at("a", runstate.Gone, 1), at("of-another-file", runstate.Gone, 2)}, file, "", runstate.CodeSpec},
		{"the file's before the last ended of another", []Listed{at("grpo-abcde", runstate.Gone, 1), at("of-another-file", runstate.Gone, 2)}, file, "grpo-abcde", 0},
		{"the only living of another file", []Listed{at("of-another-file", runstate.Ready, 2)}, file, "of-another-file", 0},
		{"the last ended, launched from here under another name", []Listed{at("a", runstate.Gone, 2)}, file, "a", 0},
	} {
		got, _, err := choose(c.all, c.from, "", elsewhere)
		if got.Status.Name != c.want || ExitCode(err) != c.code {
			t.Errorf("%s: got %q, %v", c.name, got.Status.Name, err)
		}
	}
}
