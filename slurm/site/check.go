package site

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Check examines the connection to Slurm, the file's request to Slurm, slurm.dir, and that one node sees the same directory, has Ray, and has room for
// Ray's sockets. Checks that depend on one that failed are left out.
func (site *Site) Check(ctx context.Context, s *spec.ClusterSpec) []launcher.Check {
	s = spec.For(s, slurmspec.Name)
	version, err := site.Version(ctx)
	checks := []launcher.Check{check("controller", version+" answers on "+site.String(), err, site.controllerHint(err))}
	if err != nil {
		return checks
	}
	dir, _, err := site.Runs.Arrive(ctx)
	probe := path.Join(dir, ".doctor-"+rand.Text())
	if err == nil {
		err = site.Runs.Files.WriteBytes(ctx, path.Join(probe, "seen"), []byte("ok"))
	}
	checks = append(checks, check("slurm.dir", dir, err, "set slurm.dir to a directory that you may write to and that all nodes share"))
	if err != nil {
		return checks
	}
	defer func() { _ = site.Runs.Files.Remove(context.WithoutCancel(ctx), probe) }() // a few bytes
	request, ok := site.checkRequest(ctx, s, probe)
	checks = append(checks, request...)
	if !ok {
		return checks
	}
	return append(checks, site.checkNode(ctx, s, probe)...)
}

func check(name, detail string, err error, hint string) launcher.Check {
	if err == nil {
		return launcher.Check{Name: name, OK: true, Detail: detail}
	}
	var known *launcher.ExitError
	if errors.As(err, &known) {
		return launcher.Check{Name: name, Detail: known.Message, Hint: known.Hint}
	}
	return launcher.Check{Name: name, Detail: err.Error(), Hint: hint}
}

func (site *Site) controllerHint(err error) string {
	if controller.Away(err) && !NotInstalled(err) {
		return "ask your site's administrators whether slurmctld runs"
	}
	return "set slurm.host to a login node, or put Slurm's commands into PATH"
}

// checkRequest lets Slurm validate the file's request without submitting it: partition, account, QOS, GRES and sizes. false: trying a node is
// useless.
func (site *Site) checkRequest(ctx context.Context, s *spec.ClusterSpec, probe string) ([]launcher.Check, bool) {
	if s.Name == "" {
		s.Name = "doctor"
	}
	if slurmspec.InCurrent(s) {
		a, err := site.Current(ctx, script.Plan{Spec: s})
		return []launcher.Check{check("request", a.String(), err, "")}, false
	}
	p, start, err := site.wouldStart(ctx, s, probe)
	detail := "Slurm would take it: " + strings.Join(asked(p), ", ")
	switch {
	case err == nil && start.IsZero() && site.isREST():
		detail = "not looked at: slurmrestd cannot be asked without submitting"
	case err == nil && time.Until(start) > time.Minute:
		detail += "; " + Expected(start)
	case err != nil:
		err = site.Refused("what the file asks for", err)
	}
	return []launcher.Check{check("request", detail, err, "")}, err == nil
}

// forever is how far ahead Slurm plans where only a job without a time limit is in the way: it takes such a job to last a year.
const forever = 300 * 24 * time.Hour

// Expected is when Slurm expects to start a job, in words.
func Expected(start time.Time) string {
	if time.Until(start) > forever {
		return "the expected start is unknown (jobs without a time limit)"
	}
	return "Slurm expects to start it at " + launcher.Stamp(start)
}

// wouldStart lets Slurm validate the spec's job, from a script in a directory on the site.
func (site *Site) wouldStart(ctx context.Context, s *spec.ClusterSpec, dir string) (script.Plan, time.Time, error) {
	p := site.Fitted(ctx, script.Plan{Spec: s, Python: "python3", Programs: dir, Run: dir, Nonce: "doctor"})
	text, err := p.Script()
	if err != nil {
		return p, time.Time{}, err
	}
	b := controller.Batch{Plan: p, File: path.Join(dir, script.File), Environment: site.Runs.Environment()}
	if err := site.Runs.Files.WriteBytes(ctx, b.File, []byte(text)); err != nil {
		return p, time.Time{}, err
	}
	start, err := site.PlannedStart(ctx, b)
	return p, start, err
}

// TryRequest is checkRequest for a launch that replaces a cluster. Limits on how much one may have at a time are no refusal: what is there under the
// name counts against them.
func (site *Site) TryRequest(ctx context.Context, s *spec.ClusterSpec) error {
	if slurmspec.InCurrent(s) {
		_, err := site.Current(ctx, script.Plan{Spec: s})
		return err
	}
	dir, _, err := site.Runs.Arrive(ctx)
	if err != nil {
		return err
	}
	probe := path.Join(dir, ".try-"+rand.Text())
	defer func() { _ = site.Runs.Files.Remove(context.WithoutCancel(ctx), probe) }() // one script
	_, _, err = site.wouldStart(ctx, s, probe)
	err = site.Refused(s.Name, err)
	if launcher.ExitCode(err) == runstate.CodePermission && strings.Contains(err.Error(), "accounting/QOS policy") {
		return nil
	}
	return err
}

func (site *Site) isREST() bool { _, rest := site.Controller.(*controller.REST); return rest }

// asked lists what a job requests.
func asked(p script.Plan) (out []string) {
	for _, c := range p.Components() {
		text := fmt.Sprintf("%d × %d CPUs", c.Nodes, c.Request.CPUs)
		for _, part := range [][2]string{{"GPUs ", c.Request.GPUs}, {"partition ", c.Request.Slurm.Partition}, {"account ", c.Request.Slurm.Account}, {"QOS ", c.Request.Slurm.QOS}} {
			if part[1] != "" {
				text += " " + part[0] + part[1]
			}
		}
		out = append(out, text)
	}
	return out
}

// nodeTime is how many seconds doctor waits for a node: none may be free.
const nodeTime = 30

// clockSkew is how far clocks may differ before times in records mislead.
const clockSkew = 5 * time.Second

// setupFile has the file's setup, which a node runs before Ray.
const setupFile = "setup.sh"

// look is what runs on the node, with its modules: its clock, whether it sees the directory and may write there, its temporary directory, the keeper's
// Python, and behind setup Ray's, the node's address and its ports.
const look = `date +%s
cat "$1/seen" 2>/dev/null; echo
if echo x >"$1/node" 2>/dev/null; then echo writable; else echo; fi
root=$3 dir=$3
case $3 in *\$*)
	root=$("$2" -c 'import os, re, sys; print(re.sub(r"\$(?:(SLURM_JOB_ID|TMPDIR|USER)\b|\{(SLURM_JOB_ID|TMPDIR|USER)\})", lambda m: os.environ.get(m[1] or m[2], ""), sys.argv[1]))' "$3")
	dir=$root; while [ "$dir" ] && [ ! -d "$dir" ]; do dir=${dir%/*}; done ;; # which nodes make
esac
if [ -d "$dir" ] && [ -w "$dir" ]; then echo writable; else echo; fi
"$2" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1 | tail -n 1
bash -c 'set -e; . "$1" >&2; set +e; shift; exec "$@"' setup "$1/setup.sh" "$4" -c 'import ray; print("ray", ray.__version__)' 2>&1 | tail -n 1
hostname
printf '%s\n' "$root"
"$2" -E -s "$1/$5" "$6" "$7" "$8" "$9" || : # what keeps it from that is found above`

// checkNode runs one small step on a free node.
func (site *Site) checkNode(ctx context.Context, s *spec.ClusterSpec, probe string) []launcher.Check {
	p := script.Plan{Spec: s}
	var checks []launcher.Check
	var err error
	if p.Python, err = site.Python(ctx, s); err != nil {
		return append(checks, check("node", "", err, ""))
	}
	argv := []string{"srun", "--quiet", "--nodes=1", "--ntasks=1", "--time=1", fmt.Sprintf("--immediate=%d", nodeTime), "--mpi=none", "--job-name=rayctl-doctor", "--chdir=/"}
	g := slurmspec.For(s, s.NodeGroups()[0])
	for _, o := range script.Where(g, g.Constraint) {
		if o[1] != "" {
			argv = append(argv, o[0]+"="+o[1])
		}
	}
	argv = append(argv, controller.OfCluster(slurmspec.Of(s).Cluster)...)
	if c := slurmspec.Of(s).Comment; c != "" {
		argv = append(argv, "--comment="+c)
	}
	argv = append(argv, g.ExtraArgs...) // a site may refuse jobs without them
	p.Run = probe
	for name, text := range map[string][]byte{script.HostFile: []byte(p.Host()), setupFile: []byte(s.Setup), keeperzip.File: keeperzip.Bytes()} {
		if err := site.Runs.Files.WriteBytes(ctx, path.Join(probe, name), text); err != nil {
			return append(checks, check("node", "", err, ""))
		}
	}
	before := time.Now()
	argv = append(argv, p.OnHost("sh", "-c", look, "sh", probe, p.HostPython(), p.TempRoot(), p.Python,
		keeperzip.File, script.RoleNetwork, slurmspec.Of(s).Network, slurmspec.Of(s).Ports, strconv.Itoa(connecting(s)), strconv.Itoa(slurmspec.PortsNeeded(s)))...)
	out, err := site.run(ctx, remote.CleanWith(slurmspec.Of(s).KeepEnv, argv...)...) // a job's environment
	if NotInstalled(err) && site.isREST() {
		return append(checks, check("node", "not looked at: there is no srun on "+site.Runner.String(), nil, ""))
	}
	if err != nil {
		return append(checks, check("node", "", err, "no node may be free at the moment; try again, or look at slurm.partition, slurm.account and slurm.qos"))
	}
	lines := append(strings.Split(out, "\n"), make([]string, 10)...)
	node, root := lines[6], lines[7]
	checks = append(checks,
		finding("slurm.dir on "+node, lines[1] == "ok" && lines[2] == "writable", path.Dir(probe), "it is not there, or cannot be written", "set slurm.dir to a directory that all nodes share"))
	if root != "" { // else there is no Python to tell it
		checks = append(checks, checkPaths(root),
			finding("slurm.tmpDir on "+node, lines[3] == "writable", root, root+" is not there, or cannot be written", "set slurm.tmpDir to a directory on each node's own disk"))
	}
	checks = append(checks, checkPrograms(node, lines[4], lines[5], s)...)
	checks = append(checks, checkNetwork(node, lines[8], lines[9])...)
	return append(checks, checkClock(lines[0], before))
}

func finding(name string, ok bool, detail, fault, hint string) launcher.Check {
	if ok {
		return launcher.Check{Name: name, OK: true, Detail: detail}
	}
	return launcher.Check{Name: name, Detail: fault, Hint: hint}
}

// longestSocket is what follows the temporary directory in the longest path of a socket of Ray: r, 8 digits, t, the session's name, sockets/plasma_store.
const longestSocket = len("/r12345678/t/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store")

// socketLimit is Linux's for the path of a socket.
const socketLimit = 107

func checkPaths(root string) launcher.Check {
	long := len(root) + longestSocket
	return finding("paths", long <= socketLimit, fmt.Sprintf("sockets below %s have at most %d of %d characters", root, long, socketLimit),
		fmt.Sprintf("sockets below %s would have %d characters, and Linux allows %d", root, long, socketLimit), "set slurm.tmpDir to a shorter path")
}

// checkPrograms checks the versions that a node's interpreter reported of itself and of Ray. With
// containers that is the one that runs the keeper, and Ray is inside.
func checkPrograms(node, python, ray string, s *spec.ClusterSpec) []launcher.Check {
	if !slurmspec.InContainer(s) {
		return []launcher.Check{checkPython(node, python, "set ray.python, or slurm.python where it differs, to one that the nodes have, or bring it by slurm.modules"), checkRay(node, ray, s)}
	}
	inside := check("Ray", "not looked at: it and ray.python are in the container, which this check does not start", nil, "")
	return []launcher.Check{checkPython(node, python, "set slurm.python to one that the nodes have: outside of the container it runs the keeper"), inside}
}

const bringRay = "set ray.python to an interpreter that has Ray, or bring it by slurm.modules or setup"

func checkPython(node, said, hint string) launcher.Check {
	var major, minor int
	n, _ := fmt.Sscanf(said, "%d.%d", &major, &minor)
	return finding("python on "+node, n == 2 && (major > 3 || major == 3 && minor >= 8), said, "it reports "+strconv.Quote(said)+", and 3.8 or later is needed", hint)
}

func checkRay(node, said string, s *spec.ClusterSpec) launcher.Check {
	name := "Ray on " + node
	version, ok := strings.CutPrefix(said, "ray ")
	if !ok {
		return launcher.Check{Name: name, Detail: said, Hint: bringRay}
	}
	return finding(name, s.Ray.Version == "" || s.Ray.Version == version, version, "it is "+version+", and ray.version asks for "+s.Ray.Version, "correct ray.version or ray.python")
}

// checkClock compares a node's clock with ours, which stood between before and now when it was read.
func checkClock(text string, before time.Time) launcher.Check {
	seconds, err := strconv.ParseInt(text, 10, 64)
	at, skew := time.Unix(seconds, 0), time.Duration(0)
	switch {
	case at.Before(before):
		skew = before.Sub(at)
	case at.After(time.Now()):
		skew = time.Until(at)
	}
	c := check("clock", "it agrees with this machine's", err, "")
	if err == nil && skew > clockSkew {
		c = launcher.Check{Name: "clock", Detail: fmt.Sprintf("a node's clock differs by %s", skew.Round(time.Second)), Hint: "times in records will mislead; tell your site's administrators"}
	}
	return c
}
