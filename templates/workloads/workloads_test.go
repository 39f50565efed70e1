package workloads

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// number is a commit that YAML takes for a number.
const number = "8e39757057570572703781043030040601071290"

// TestPinned: the version is a part of one text, also where it looks like a number.
func TestPinned(t *testing.T) {
	for _, version := range []string{"v0.1.0", number} {
		var workflow struct {
			Jobs map[string]struct{ Steps []struct{ Uses string } }
		}
		read(t, content(t, "github", ".github/workflows/rayctl.yml", "rayctlVersion="+version), &workflow)
		var uses []string
		for _, step := range workflow.Jobs["rayctl"].Steps {
			uses = append(uses, step.Uses)
			if _, tag, _ := strings.Cut(step.Uses, "@"); tag == "" || tag == "main" || tag == "latest" {
				t.Errorf("%s is not pinned", step.Uses)
			}
		}
		if !slices.Contains(uses, "rayctl/rayctl/ci/github@"+version) {
			t.Errorf("%s: %q", version, uses)
		}
		var jobs struct{ Include []struct{ Remote string } }
		read(t, content(t, "gitlab", ".gitlab-ci.yml", "rayctlVersion="+version), &jobs)
		if len(jobs.Include) != 1 || !strings.HasSuffix(jobs.Include[0].Remote, "/rayctl/"+version+"/ci/gitlab/rayctl.yml") {
			t.Errorf("%s: %+v", version, jobs)
		}
	}
}

// TestCIFiles: the files for CI systems set what the templates in ci/ know.
func TestCIFiles(t *testing.T) {
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Uses string
				With map[string]any
			}
		}
	}
	read(t, content(t, "github", ".github/workflows/rayctl.yml"), &workflow)
	var action struct{ Inputs map[string]any }
	read(t, file(t, "../../ci/github/action.yml"), &action)
	used := 0
	for _, step := range workflow.Jobs["rayctl"].Steps {
		if step.Uses != "rayctl/rayctl/ci/github@main" {
			continue
		}
		used++
		if step.With["version"] != "main" { // as the action itself
			t.Errorf("rayctl is of another version than the action: %v", step.With)
		}
		for name := range step.With {
			if action.Inputs[name] == nil {
				t.Errorf("the action has no input %s", name)
			}
		}
	}
	if used != 1 {
		t.Errorf("the workflow uses the action %d times", used)
	}

	type job struct {
		Extends   string
		Variables map[string]any
	}
	var jobs, template map[string]any
	read(t, content(t, "gitlab", ".gitlab-ci.yml"), &jobs)
	read(t, file(t, "../../ci/gitlab/rayctl.yml"), &template)
	var ours, theirs job
	again(t, jobs["rayctl"], &ours)
	again(t, template[ours.Extends], &theirs)
	for name := range ours.Variables {
		if _, known := theirs.Variables[name]; !known {
			t.Errorf("the template of GitLab has no variable %s", name)
		}
	}
	if len(ours.Variables) == 0 {
		t.Error("the job sets nothing")
	}
}

func content(t *testing.T, template, name string, set ...string) []byte {
	t.Helper()
	values, err := builtin(t, template).Values(set, "x")
	if err != nil {
		t.Fatal(err)
	}
	files, err := builtin(t, template).Files(values)
	if err != nil || len(files) != 1 || files[0].Name != name {
		t.Fatal(files, err)
	}
	return files[0].Content
}

func builtin(t *testing.T, name string) *Template {
	t.Helper()
	all, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.Name == name {
			return one
		}
	}
	t.Fatalf("there is no template %s", name)
	return nil
}

func file(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func read(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// again decodes a part of a document into a type of its own.
func again(t *testing.T, part, into any) {
	t.Helper()
	data, err := yaml.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	read(t, data, into)
}
