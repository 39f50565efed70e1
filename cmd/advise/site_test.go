package advise

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/cmd/config"
	kubernetesrun "github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// profilesOf writes the user's configuration and reads its profiles.
func profilesOf(t *testing.T, text string) []config.Profile {
	t.Helper()
	apptest.OwnHome(t)
	apptest.WriteFiles(t, os.Getenv("XDG_CONFIG_HOME"), map[string]string{"rayctl/config.yaml": text})
	all, err := config.Profiles(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// opening makes an App whose launcher of this name is l.
func opening(name string, l launcher.Launcher) *app.App {
	a, _, _ := apptest.New()
	a.Launchers[name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) { return l, nil }
	return a
}

// program makes a program of this name the only one in PATH, beside the system's.
func program(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/bin:/usr/bin")
}

// TestSlurmSites: what advise says of Slurm as this machine has it.
func TestSlurmSites(t *testing.T) {
	const partitions = "printf 'cpu*\\ngpu\\n'"
	for _, test := range []struct{ name, sinfo, config, says, flags string }{
		{"answers", partitions, "", "Slurm answers here (partition cpu)", ""},
		{"a profile", partitions, "profiles: {hpc: {slurm: {partition: gpu}}, k: {kuberay: {}}}", "Slurm answers here (profile hpc, partition gpu)", "--profile hpc"},
		{"the default profile", partitions, "profiles: {a: {slurm: {}}, default: {slurm: {partition: gpu}}}", "Slurm answers here (profile default, partition gpu)", ""},
		{"another default", partitions, "profiles: {default: {launcher: kuberay}}", "Slurm answers here (partition cpu)", "--launcher slurm"},
		{"by ssh", "exit 9", "profiles: {far: {slurm: {host: login.hpc}}}", "Slurm is reached at login.hpc (profile far); it was not asked, `rayctl doctor` does that", "--profile far"},
		{"silent", "exec sleep 60", "", "Slurm cannot be reached from this machine, because its controller did not answer within 2s: `rayctl doctor --launcher slurm` waits for it", ""},
		{"broken", "echo 'slurm_load_partitions: no contact' >&2; exit 1", "profiles: {k: {kuberay: {}}}",
			"Slurm cannot be reached from this machine, because sinfo says \"slurm_load_partitions: no contact\": `rayctl doctor --launcher slurm` looks at each part; your profiles lead to kuberay (k)", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			profiles := profilesOf(t, test.config)
			program(t, "sinfo", test.sinfo)
			s, flags := siteOf(t.Context(), opening(slurm, &apptest.Launcher{Title: slurm}), slurm, nil, profiles)
			if s.Says != test.says || strings.Join(flags, " ") != test.flags {
				t.Errorf("%q %q, want %q %q", s.Says, flags, test.says, test.flags)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		s, _ := siteOf(t.Context(), opening(slurm, &apptest.Launcher{Title: slurm}), slurm, nil, nil)
		if !strings.Contains(s.Says, "because there is no `sinfo` here: use rayctl on a login node") || s.Reachable == nil || *s.Reachable {
			t.Errorf("%+v", s)
		}
	})
}

// TestKubernetesSites: what advise says of Kubernetes as the kubeconfig and the profiles have it.
func TestKubernetesSites(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // it accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: lab\ncontexts: [{name: lab, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\nclusters: [{name: c, cluster: {server: 'http://" +
		silent.Addr().String() + "'}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	actual, err := kubernetesrun.Substrate.New(&spec.ClusterSpec{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		launcher launcher.Launcher
		file     string
		config   string
		says     string
	}{
		{"answers", &apptest.Launcher{}, kubeconfig, "", "KubeRay answers here (context lab)"},
		{"a profile", &apptest.Launcher{}, kubeconfig, "profiles: {p: {kuberay: {context: prod}}}", "KubeRay answers here (profile p, context prod)"},
		{"refuses", &apptest.Launcher{Failure: errors.New("it is broken: mend it")}, kubeconfig, "", "KubeRay cannot be reached from this machine (context lab), because it is broken: mend it"},
		{"silent", actual, kubeconfig, "", "KubeRay cannot be reached from this machine (context lab), because its API server did not answer within 2s: `rayctl doctor --launcher kuberay` waits for it"},
		{"none", actual, "/nosuch", "", "because no Kubernetes is configured"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.file)
			s, _ := siteOf(t.Context(), opening(kuberay, test.launcher), kuberay, nil, profilesOf(t, test.config))
			if !strings.Contains(s.Says, test.says) {
				t.Errorf("%q, want %q", s.Says, test.says)
			}
		})
	}
}

// TestFilesSite: a cluster file for the launcher says where it is; profiles that did not apply to it do not count.
func TestFilesSite(t *testing.T) {
	program(t, "sinfo", "echo 'cpu*'")
	profiles := profilesOf(t, "profiles: {hpc: {slurm: {partition: gpu}}}")
	t.Chdir(t.TempDir())
	apptest.WriteFiles(t, ".", map[string]string{"rayctl.yaml": "slurm: {partition: mine}\n"})
	loaded, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, flags := siteOf(t.Context(), opening(slurm, &apptest.Launcher{Title: slurm}), slurm, loaded, profiles)
	if s.Says != "Slurm answers here (partition mine)" || flags != nil {
		t.Errorf("%q %q", s.Says, flags)
	}
}
