package site

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

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
submits() { # as slurm/questions.py does
	for name in $(env | sed -n 's/^\(\(SLURM\|SLURMD\|SBATCH\|SRUN\)_[A-Z0-9_]*\)=.*/\1/p'); do
		case $name in SLURM_CONF | SLURM_CONF_SERVER | SLURM_SACK_SOCKET) ;; *) unset "$name" ;; esac
	done
	sbatch --test-only "$1" 2>&1
}
if [ -z "${10}" ]; then echo; elif said=$(submits "$1/${10}"); then echo submits; else printf '%s\n' "$said" | tail -n 1; fi
"$2" -E -s "$1/$5" "$6" "$7" "$8" "$9" "${11}" || : # what keeps it from that is found above`

// checkNode runs one small step on a free node.
func (site *Site) checkNode(ctx context.Context, s *spec.ClusterSpec, probe string) []launcher.Check {
	p := script.Plan{Spec: s}
	var checks []launcher.Check
	var err error
	if p.Python, err = site.Python(ctx, s); err != nil {
		return append(checks, check("node", "", err, ""))
	}
	argv := small(s, slurmspec.For(s, s.NodeGroups()[0]))
	p.Run, p.Programs = probe, probe
	elastic, err := site.putCompanion(ctx, p)
	if err != nil {
		return append(checks, check("node", "", err, ""))
	}
	for name, text := range map[string][]byte{script.HostFile: []byte(p.Host()), setupFile: []byte(s.Setup), keeperzip.File: keeperzip.Bytes()} {
		if err := site.Runs.Files.WriteBytes(ctx, path.Join(probe, name), text); err != nil {
			return append(checks, check("node", "", err, ""))
		}
	}
	before := time.Now()
	argv = append(argv, p.OnHost("sh", "-c", look, "sh", probe, p.HostPython(), p.TempRoot(), p.Python,
		keeperzip.File, script.RoleNetwork, slurmspec.Of(s).Network, slurmspec.Of(s).Ports, strconv.Itoa(connecting(s)), elastic, strconv.Itoa(slurmspec.PortsNeeded(s)))...)
	out, err := site.run(ctx, remote.CleanWith(slurmspec.Of(s).KeepEnv, argv...)...) // a job's environment
	if NotInstalled(err) && site.isREST() {
		return append(checks, check("node", "not looked at: there is no srun on "+site.Runner.String(), nil, ""))
	}
	if err != nil {
		return append(checks, check("node", "", err, "no node may be free at the moment; try again, or look at slurm.partition, slurm.account and slurm.qos"))
	}
	lines := append(strings.Split(out, "\n"), make([]string, 11)...)
	node, root := lines[6], lines[7]
	checks = append(checks,
		finding("slurm.dir on "+node, lines[1] == "ok" && lines[2] == "writable", path.Dir(probe), "it is not there, or cannot be written", "set slurm.dir to a directory that all nodes share"))
	if root != "" { // else there is no Python to tell it
		checks = append(checks, checkPaths(root),
			finding("slurm.tmpDir on "+node, lines[3] == "writable", root, root+" is not there, or cannot be written", "set slurm.tmpDir to a directory on each node's own disk"))
	}
	checks = append(checks, checkPrograms(node, lines[4], lines[5], s)...)
	if elastic != "" {
		checks = append(checks, finding("jobs from "+node, lines[8] == "submits", "it may submit the jobs of further nodes",
			"sbatch there says "+strconv.Quote(lines[8]), nodesMayNotSubmit))
	}
	checks = append(checks, checkNetwork(node, lines[9], lines[10])...)
	return append(append(checks, site.checkReach(ctx, p)...), checkClock(lines[0], before))
}

// small is the beginning of the command line of one small step on a free node of a group.
func small(s *spec.ClusterSpec, g slurmspec.Group) []string {
	argv := []string{"srun", "--quiet", "--nodes=1", "--ntasks=1", "--time=1", fmt.Sprintf("--immediate=%d", nodeTime), "--mpi=none", "--job-name=rayctl-doctor", "--chdir=/"}
	for _, o := range script.Where(g, g.Constraint) {
		if o[1] != "" {
			argv = append(argv, o[0]+"="+o[1])
		}
	}
	argv = append(argv, controller.OfCluster(slurmspec.Of(s).Cluster)...)
	if c := slurmspec.Of(s).Comment; c != "" {
		argv = append(argv, "--comment="+c)
	}
	return append(argv, g.ExtraArgs...) // a site may refuse jobs without them
}

// nodesMayNotSubmit is what a user can do where compute nodes may not submit jobs.
const nodesMayNotSubmit = "nodes above minReplicas, and the gang of an early head, come only while `rayctl run`, `up` or `submit` watches the cluster and submits their jobs: keep one attached, or ask your site's administrators to let compute nodes submit jobs"

// putCompanion writes a batch script that nodes submit, of an early head's gang or the first elastic group, into the directory, and returns its name; "" if there is none.
func (site *Site) putCompanion(ctx context.Context, p script.Plan) (string, error) {
	scripts, err := p.Companions()
	if err != nil {
		return "", err
	}
	names := []string{script.GangFile}
	for _, g := range p.Spec.NodeGroups() {
		if g.Elastic() {
			names = append(names, script.CompanionFile(g.Name))
		}
	}
	for _, name := range names {
		if scripts[name] != "" {
			return name, site.Runs.Files.WriteBytes(ctx, path.Join(p.Run, name), []byte(scripts[name]))
		}
	}
	return "", nil
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
