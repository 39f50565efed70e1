package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNewUser: who has neither Ray nor anything of rayctl needs two commands to the end of a training, and gets on stdout what the driver prints. The environment is made in
// the second one. TestInit has more templates with a Ray that is there, TestTrainWarned the run that goes on.
func TestNewUser(t *testing.T) {
	u := exampleUser(t)
	for _, c := range []struct {
		template string
		printed  *regexp.Regexp
	}{
		{"train", regexp.MustCompile(`(?s)beginning at step 0\n.*\nfitted: {.*'step': 3[,}]`)},
		{"grpo", regexp.MustCompile(`(?s)\nbeginning at step 0\nstep 0 reward .*\nstep 2 reward \d\.\d\d\n\z`)},
	} {
		t.Run(c.template, func(t *testing.T) {
			u := u.in(t)
			cache := t.TempDir()
			u.dir, u.env = t.TempDir(), append(u.env[:len(u.env):len(u.env)], "XDG_CACHE_HOME="+cache)
			contains(t, "init", u.want(0, "init", c.template, "--set", "steps=3").err, "rayctl run")
			r := u.runExample("run")
			if !c.printed.MatchString(r.out) {
				t.Errorf("printed %q, want %s", r.out, c.printed)
			}
			contains(t, "what rayctl says", r.err, "Python environment", " succeeded\n")
			if made, err := filepath.Glob(filepath.Join(cache, "rayctl", "envs", "ray-*", ".rayctl-complete")); err != nil || len(made) != 1 {
				t.Errorf("environments in the new user's cache: %q, %v", made, err)
			}
			if list := u.want(0, "ls", "-o", "name").out; strings.TrimSpace(list) != "" {
				t.Errorf("left: %s", list)
			}
		})
	}
}
