package local_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
	"github.com/rayctl/rayctl/test/pace"
)

func TestBadInput(t *testing.T) {
	pace.Parallel(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "python")
	// It answers what rayctl asks, but cannot run the keeper.
	program := "#!/bin/sh\n[ \"$1\" = -c ] && exec '" + oneNode(t, "x", "").Ray.Python + "' \"$@\"\necho 'Fatal Python error: no codec' >&2\nexit 1\n"
	if err := os.WriteFile(broken, []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	onlyLaunch := []string{"broken Python", "output is a file"} // --dry-run starts no keeper and makes no directory of the user
	for name, test := range map[string]struct {
		change func(*spec.ClusterSpec)
		state  string
		code   int
		names  string
	}{
		"name":           {func(s *spec.ClusterSpec) { s.Name = "../x" }, "", runstate.CodeSpec, `"../x"`},
		"no such Python": {func(s *spec.ClusterSpec) { s.Ray.Python = "/no/python" }, "", runstate.CodeConfig, "/no/python"},
		"broken Python":  {func(s *spec.ClusterSpec) { s.Ray.Python = broken }, "", runstate.CodeStartFailed, "Fatal Python error: no codec"},
		"other Ray":      {func(s *spec.ClusterSpec) { s.Ray.Version = "2.9.3" }, "", runstate.CodeConfig, "2.9.3"},
		"secret":         {func(s *spec.ClusterSpec) { s.Secrets = []spec.Secret{{Name: "TOP"}} }, "", runstate.CodeSpec, "TOP"},
		"Kubernetes key": {func(s *spec.ClusterSpec) { s.Secrets = []spec.Secret{{Name: "K", SecretKeyRef: &spec.SecretKeyRef{}}} }, "", runstate.CodeSpec, "K"},
		"PATH without bash": {func(s *spec.ClusterSpec) {
			s.Job = spec.Job{Entrypoint: "true", Env: map[string]string{"PATH": filepath.Dir(file)}}
		}, "", runstate.CodeConfig, "the PATH of job.env has none"},
		"state is a file": {func(*spec.ClusterSpec) {}, file, runstate.CodeConfig, file},
		"output is a file": {func(s *spec.ClusterSpec) { s.Job = spec.Job{Entrypoint: "true", OutputDir: file + "/{name}"} },
			"", runstate.CodeSpec, "output directory"},
		"mount without source": {func(s *spec.ClusterSpec) { s.Mounts = []spec.Mount{{MountPath: "/m"}} }, "", runstate.CodeSpec, "/m"},
		"mount of nothing": {func(s *spec.ClusterSpec) {
			s.Mounts = []spec.Mount{{MountPath: "/m", Source: spec.MountSource{Sections: localspec.SourceIn("/no/dir")}}}
		}, "", runstate.CodeSpec, "/no/dir"},
		"mount on something": {func(s *spec.ClusterSpec) {
			s.Mounts = []spec.Mount{{MountPath: file, Source: spec.MountSource{Sections: localspec.SourceIn(filepath.Dir(file))}}}
		}, "", runstate.CodeSpec, file},
	} {
		t.Run(name, func(t *testing.T) {
			pace.Parallel(t)
			state := test.state
			if state == "" {
				state = t.TempDir()
			}
			s := oneNode(t, "x", "")
			test.change(s)
			_, err := at(t, state).Launch(within(t), s, launcher.Payload{})
			wantError(t, err, test.code, nil, test.names)
			if !slices.Contains(onlyLaunch, name) {
				wantError(t, at(t, state).Validate(within(t), s, launcher.Payload{DryRun: true}), test.code, nil, test.names)
			}
			nothingLeft(t, state, "x")
			if entries, _ := os.ReadDir(filepath.Join(state, "clusters")); len(entries) > 0 {
				t.Errorf("left: %v", entries)
			}
		})
	}
}
