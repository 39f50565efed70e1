package recipes

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestVersions: the version and commit that a manifest says is checked are those of the framework, and those from which the list of its options was read.
func TestVersions(t *testing.T) {
	for _, r := range recipes {
		data, err := os.ReadFile(filepath.Join("options", r.name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		header, _, _ := strings.Cut(string(data), "\n")
		m := readFrom.FindStringSubmatch(header)
		if m == nil {
			t.Errorf("%s: the list does not say where it is from: %s", r.name, header)
			continue
		}
		one := template(t, r.name)
		checked := one.Checked[0]
		if checked.Test != "TestRecipes" || checked.Version != m[1] || checked.Commit != m[2] || strings.TrimPrefix(checked.Version, "v") != one.Framework.Version {
			t.Errorf("%s: the framework is %s, checked is %+v, and the list is from %q %q", r.name, one.Framework.Version, checked, m[1], m[2])
		}
	}
}

// readFrom finds the version of a wheel, or version and commit of a repository, in the first line of a list of options.
var readFrom = regexp.MustCompile(`^# Options of (?:the wheel )?\S+ (v?[0-9.]*[0-9])(?:, ([0-9a-f]{40}))?, by test/recipes/options\.py\.$`)

// definesOptions are the files in which a framework defines what TestRecipes compares, where options.py does not name them: it has hydra compose verl's, and walks
// through the folders of slime and Miles.
var definesOptions = map[string][]string{
	"slime": {"slime/utils/arguments.py", "scripts/run-qwen3-4B.sh"},
	"miles": {"miles/utils/arguments.py", "scripts/run_qwen3_4b.py"},
	"verl":  {"trainer/config/ppo_trainer.yaml"},
}

// TestSources: a manifest names the files in which the template's options are defined, and those of the variable that some nodes have for uv.
func TestSources(t *testing.T) {
	data, err := os.ReadFile("options.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recipes {
		sources := strings.Join(template(t, r.name).Sources, "\n")
		paths := definesOptions[r.name]
		if paths == nil {
			function := regexp.MustCompile(`(?s)\ndef ` + strings.TrimSuffix(r.name, "-rl") + `\(source\):\n(.*?)\n\n`).FindSubmatch(data)
			if function == nil {
				t.Fatalf("options.py does not read %s", r.name)
			}
			for _, m := range regexp.MustCompile(`"(\S+\.(?:py|yaml))"`).FindAllSubmatch(function[1], -1) {
				paths = append(paths, string(m[1]))
			}
		}
		if len(paths) == 0 {
			t.Errorf("%s: no file is known", r.name)
		}
		for _, p := range paths {
			if !strings.Contains(sources, path.Base(p)) {
				t.Errorf("%s: the sources do not have %s", r.name, p)
			}
		}
		for name := range written[r.name].nodes {
			if strings.HasPrefix(name, "RAY_") && !strings.Contains(sources, name) && !strings.Contains(sources, "ray.sub") {
				t.Errorf("%s: no source is for %s", r.name, name)
			}
		}
	}
}

// TestSourcesOfVerl: each option of verl's template is below a name that a source gives: verl's configuration is in many files.
func TestSourcesOfVerl(t *testing.T) {
	sources := strings.Join(template(t, "verl").Sources, "\n")
	given := 0
	for _, a := range driver(t, filesWith(t, "verl", "launcher=slurm", "reward=reward.py"), nil) {
		m := isOption.FindStringSubmatch(a)
		if m == nil || m[2] == "" {
			continue
		}
		given++
		parts, least := strings.Split(m[2], "."), 1
		if parts[0] == "actor_rollout_ref" { // its parts are in files of their own
			least = 2
		}
		named := false
		for n := least; n < len(parts); n++ {
			named = named || regexp.MustCompile(`(: |, | and )`+regexp.QuoteMeta(strings.Join(parts[:n], "."))+`([,;" ]|$)`).MatchString(strings.ReplaceAll(sources, "\n", " \n"))
		}
		if !named {
			t.Errorf("no source is for %s", m[2])
		}
	}
	if given < 25 {
		t.Errorf("only %d options were looked at", given)
	}
}
