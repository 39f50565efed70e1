package site

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// nodeTime is how many seconds doctor waits for a node: none may be free.
const nodeTime = 30

// lookTime is how many minutes the look at a node takes at most: images may have to be loaded (PATIENCE of keeper/rayctl_keeper/slurm/doctor/look.py).
const lookTime = 5

// ordersFile has the cluster's orders, as the keeper reads them. seenFile shows a node that it sees the directory.
const ordersFile, seenFile = "orders.json", "seen"

// look is what runs on the node, with its modules: its clock, whether it sees the directory and may write there, its temporary directory, the job's
// directories, the keeper's Python, the container and Ray's version, the node's address and its ports.
const look = `date +%s
cat "$1/seen" 2>/dev/null; echo
if echo x >"$1/node" 2>/dev/null; then echo writable; else echo; fi
root=$3 dir=$3
case $3 in *\$*)
	root=$("$2" -c 'import os, re, sys; print(re.sub(r"\$(?:(SLURM_JOB_ID|TMPDIR|USER)\b|\{(SLURM_JOB_ID|TMPDIR|USER)\})", lambda m: os.environ.get(m[1] or m[2], ""), sys.argv[1]))' "$3")
	dir=$root; while [ "$dir" ] && [ ! -d "$dir" ]; do dir=${dir%/*}; done ;; # which nodes make
esac
if [ -d "$dir" ] && [ -w "$dir" ]; then echo writable; else echo; fi
if [ -z "${12}" ] || [ -d "${12}" ]; then echo there; else echo; fi
out=${13}
while [ "$out" ] && [ ! -e "$out" ]; do out=${out%/*}; done # jobs make the rest
if [ -z "${13}" ] || [ -d "${out:-/}" ] && [ -w "${out:-/}" ]; then echo writable; else echo; fi
"$2" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1 | tail -n 1
"$2" -E -s "$1/$4" "$5" "$1" || printf '\n\n' # what keeps it from that is found above
hostname
printf '%s\n' "$root"
submits() { # as slurm/controller/questions.py does
	for name in $(env | sed -n 's/^\(\(SLURM\|SLURMD\|SBATCH\|SRUN\)_[A-Z0-9_]*\)=.*/\1/p'); do
		case $name in SLURM_CONF | SLURM_CONF_SERVER | SLURM_SACK_SOCKET) ;; *) unset "$name" ;; esac
	done
	sbatch --test-only "$1" 2>&1
}
if [ -z "${10}" ]; then echo; elif said=$(submits "$1/${10}"); then echo submits; else printf '%s\n' "$said" | tail -n 1; fi
"$2" -E -s "$1/$4" "$6" "$7" "$8" "$9" "${11}" || :`

// seen is what look printed.
type seen struct {
	clock           string // seconds since 1970
	directory       bool
	scratch         string // the temporary directory; "": there is no Python to find it
	scratchWritable bool
	cwd, output     bool   // job.cwd is there, job.outputDir can be written
	python          string // its version, or what it printed
	container, ray  string // see keeper/rayctl_keeper/slurm/doctor/look.py
	node            string // its name
	submits         string // "submits", or what sbatch printed
	address, ports  string // see keeper/rayctl_keeper/slurm/doctor/network.py
	elastic         bool   // it was asked whether it may submit jobs
	smaller         string // why it was not as large as the head; "": it was
	before          time.Time
}

func parseSeen(out string) seen {
	l := append(strings.Split(out, "\n"), make([]string, 14)...)
	return seen{clock: l[0], directory: l[1] == "ok" && l[2] == "writable", scratchWritable: l[3] == "writable", cwd: l[4] == "there", output: l[5] == "writable",
		python: l[6], container: l[7], ray: l[8], node: l[9], scratch: l[10], submits: l[11], address: l[12], ports: l[13]}
}

// look runs one step on a node as the job would have it: of the group's size, or in the allocation that is there. If no node of that size is free, a small
// one answers the other questions. elastic is the batch script that the node is asked to submit, in the plan's directory; "": none.
func (site *Site) look(ctx context.Context, p script.Plan, g spec.NodeGroup, around Around, elastic string) (seen, error) {
	orders, err := json.Marshal(p.DoctorOrders())
	if err != nil {
		return seen{}, err
	}
	for name, text := range map[string][]byte{seenFile: []byte("ok"), script.HostFile: []byte(p.Host()), ordersFile: orders, keeperzip.File: keeperzip.Bytes()} {
		if err := site.Runs.Files.WriteBytes(ctx, path.Join(p.Run, name), text); err != nil {
			return seen{}, err
		}
	}
	s := p.Spec
	command := p.OnHost("sh", "-c", look, "sh", p.Run, p.HostPython(), p.TempRoot(), keeperzip.File, script.RoleLook,
		script.RoleNetwork, slurmspec.Of(s).Network, slurmspec.Of(s).Ports, strconv.Itoa(connecting(s)), elastic, strconv.Itoa(slurmspec.PortsNeeded(s)),
		s.Job.Cwd, outputDir(s))
	run := func(size []string) (seen, error) {
		before := time.Now()
		argv := append(append(site.lookStep(p, g, around), size...), command...)
		out, err := controller.RunFor(ctx, nodeTime*time.Second+(lookTime+1)*time.Minute, site.Runner, remote.CleanWith(slurmspec.Of(s).KeepEnv, argv...)...) // a job's environment
		found := parseSeen(out)
		found.before, found.elastic = before, elastic != ""
		return found, err
	}
	if around.Job != 0 {
		return run(p.OneInside(g, around.First))
	}
	size := p.OneOf(g)
	found, err := run(size)
	if err == nil || NotInstalled(err) || !busy(err) {
		return found, err
	}
	small, errSmall := run([]string{"--nodes=1", "--ntasks=1"})
	if errSmall != nil {
		return found, err
	}
	small.smaller = fmt.Sprintf("no node had %s free within %d s, so a smaller part of a node was checked", strings.Join(size, " "), nodeTime)
	return small, nil
}

// outputDir is the directory of nodes that the file names for results; "": none.
func outputDir(s *spec.ClusterSpec) string {
	if s.Job.OutputDir == "" || spec.IsURI(s.Job.OutputDir) {
		return ""
	}
	return s.Job.OutputDirFor(s.Name)
}

// busy reports whether srun got no node in its time (--immediate): "Unable to allocate resources: ..." or "Job allocation 7 has been revoked" (slurm/src/srun/allocate.c).
func busy(err error) bool {
	return strings.Contains(err.Error(), "Unable to allocate resources") || strings.Contains(err.Error(), "has been revoked")
}

// lookStep is the beginning of srun's command line.
func (site *Site) lookStep(p script.Plan, g spec.NodeGroup, around Around) []string {
	if around.Job != 0 {
		return append(step(p), "--jobid="+strconv.Itoa(around.Job))
	}
	return freeNode(p, g, lookTime)
}

// step is the beginning of the command line of a step of doctor.
func step(p script.Plan) []string {
	argv := []string{"srun", "--quiet", "--mpi=none", "--job-name=rayctl-doctor", "--chdir=/", "--input=none"}
	return append(argv, controller.OfCluster(cmp.Or(p.Cluster, slurmspec.Of(p.Spec).Cluster))...)
}

// freeNode is the beginning of the command line of a step on a node of a group that is free, of at most some minutes.
func freeNode(p script.Plan, of spec.NodeGroup, minutes int) []string {
	argv := append(step(p), fmt.Sprintf("--time=%d", minutes), fmt.Sprintf("--immediate=%d", nodeTime))
	g := slurmspec.For(p.Spec, of)
	for _, o := range script.Where(g, p.ConstraintOf(of)) {
		if o[1] != "" {
			argv = append(argv, o[0]+"="+o[1])
		}
	}
	if comment := slurmspec.Of(p.Spec).Comment; comment != "" {
		argv = append(argv, "--comment="+comment)
	}
	return append(argv, ofStep(g.ExtraArgs)...) // a site may refuse jobs without them
}

// notOfStep are options that srun does not have (22.05 to 26.05), and those with which a step would not begin at once.
var notOfStep = []string{"--batch", "--get-user-env", "--ignore-pbs", "--kill-on-invalid-dep", "--export-file", "--wait-all-nodes", "--gid", "--uid",
	"--begin", "-b", "--dependency", "-d", "--hold", "-H", "--test-only"}

// ofStep leaves out of sbatch's arguments what is not for a step of doctor.
func ofStep(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		if !strings.HasPrefix(a, "--") && len(a) > 2 {
			name = a[:2] // -bnow
		}
		return slices.Contains(notOfStep, name)
	})
}
