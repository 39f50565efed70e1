//go:build linux

package slurm_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/test/raytest"
)

// TestWithoutToken: a launch with a Ray that has no tokens reports who can connect to it, before Slurm is asked for anything, which this machine does not have.
func TestWithoutToken(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	for version, want := range map[string]string{"2.46.0": "Ray 2.46.0 has no tokens (2.52 and later have)", "2.60.0": ""} {
		l := slurm.New(slurm.Config{Dir: filepath.Join(t.TempDir(), "runs")})
		t.Cleanup(l.Close)
		s := &spec.ClusterSpec{Name: "open", Ray: spec.Ray{Version: version}, Head: spec.Head{NodeResources: small()}}
		s.Job.Entrypoint = "true"
		var warned []string
		if _, err := l.Launch(t.Context(), s, launcher.Payload{Warn: func(text string) { warned = append(warned, text) }}); err == nil {
			t.Error("it was launched")
		}
		if got := strings.Join(warned, "\n"); (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("Ray %s: the launch warns %q, want %q", version, got, want)
		}
	}
}

// openListeners prints Ray's version and which of its processes listen on an address that is not loopback.
const openListeners = `import glob, os, ray
ray.init(log_to_driver=False, logging_level="ERROR")
local = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
listens = {}
for table in ("/proc/net/tcp", "/proc/net/tcp6"):
    for row in open(table).read().splitlines()[1:]:
        words = row.split()
        if words[3] == "0A":
            listens["socket:[%s]" % words[9]] = words[1]
ours, opened = 0, []
for fd in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        socket, process = os.readlink(fd), "/".join(fd.split("/")[:3])
        if socket in listens and b"RAYCTL_NODE_DIR=" in open(process + "/environ", "rb").read():
            ours += 1
            if not listens[socket].startswith(tuple(a + ":" for a in local)):
                opened.append("%s of %s" % (listens[socket], open(process + "/cmdline").read().replace("\\0", " ")[:60]))
    except OSError:
        pass
print(ray.__version__, ours > 3, sorted(opened))
`

// oldRay: a cluster of one node with a real Ray that has no tokens runs, reports who can connect to it, and no process of it listens for other hosts.
func (b *bed) oldRay(t *testing.T) {
	s := b.named("old-ray", "python -c "+shellescape.Quote(openListeners))
	s.Ray = spec.Ray{Python: raytest.Env(t, raytest.Ray240), Version: raytest.Ray240}
	var warned []string
	r := b.begin(t, s, launcher.Payload{Warn: func(text string) { warned = append(warned, text) }})
	r.ended(0, "succeeded", "")
	if want := fmt.Sprintf("%s True []\n", raytest.Ray240); r.out.String() != want {
		t.Errorf("output %q, want %q", r.out.String(), want)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "Ray "+raytest.Ray240+" has no tokens") || !strings.Contains(warned[0], "loopback") {
		t.Errorf("the launch warns %q", warned)
	}
	r.forgotten()
}
