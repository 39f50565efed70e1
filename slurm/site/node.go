package site

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// clockSkew is how far clocks may differ before times in records mislead.
const clockSkew = 5 * time.Second

// checkNode looks at nodes as a job would have them: at one for each way in which groups choose theirs.
func (site *Site) checkNode(ctx context.Context, p script.Plan, around Around) []launcher.Check {
	var err error
	if p.Python, err = site.Python(ctx, p.Spec); err != nil {
		return []launcher.Check{check("node", "", err, "correct ray.python")}
	}
	looks := site.lookAtAll(ctx, p, around)
	if NotInstalled(looks[0].err) && site.isREST() {
		return []launcher.Check{check("node", "not checked: there is no srun on "+site.Runner.String(), nil, "")}
	}
	var checks []launcher.Check
	for _, l := range looks {
		for _, c := range l.checks(p) {
			if !slices.Contains(checks, c) { // two groups may have the same node
				checks = append(checks, c)
			}
		}
	}
	if around.Job == 0 && programsRun(checks) { // the nodes of an allocation are where they are
		checks = append(checks, site.checkReach(ctx, p)...)
	}
	if looks[0].err == nil {
		checks = append(checks, checkClock(looks[0].found.clock, looks[0].found.before))
	}
	return checks
}

// programsRun reports whether nodes can run what tries a connection, as far as is known.
func programsRun(checks []launcher.Check) bool {
	return !slices.ContainsFunc(checks, func(c launcher.Check) bool {
		return !c.OK && (c.Name == "node" || strings.HasPrefix(c.Name, "python on ") || strings.HasPrefix(c.Name, "slurm.dir on "))
	})
}

// checks are what a look at a node found.
func (l lookAt) checks(p script.Plan) (checks []launcher.Check) {
	s, found := p.Spec, l.found
	if l.err != nil && busy(l.err) {
		return []launcher.Check{check("node", fmt.Sprintf("not checked: no node of %s was free within %d s; a launch waits for one", named(s, l.group), nodeTime), nil, "")}
	}
	if l.err != nil {
		return []launcher.Check{check("node", "", l.err, "try again, or look at slurm.partition, slurm.account and slurm.qos")}
	}
	if found.smaller != "" {
		checks = append(checks, check("node", found.smaller, nil, ""))
	}
	checks = append(checks,
		finding("slurm.dir on "+found.node, found.directory, path.Dir(p.Run), "it does not exist, or cannot be written", "set slurm.dir to a directory that all nodes share"))
	if root := found.scratch; root != "" {
		checks = append(checks, checkPaths(root),
			finding("slurm.tmpDir on "+found.node, found.scratchWritable, root, root+" does not exist, or cannot be written", "set slurm.tmpDir to a directory on each node's own disk"))
	}
	if dir := s.Job.Cwd; dir != "" && !s.Job.CwdOptional {
		checks = append(checks, finding("job.cwd on "+found.node, found.cwd, dir, dir+" does not exist", "set job.cwd to a directory that all nodes have, or upload one with job.workingDir"))
	}
	if dir := outputDir(s); dir != "" {
		checks = append(checks, finding("job.outputDir on "+found.node, found.output, dir, dir+" cannot be written", "set job.outputDir to a directory that you may write to on all nodes"))
	}
	checks = append(checks, checkPrograms(found, s)...)
	if found.elastic {
		checks = append(checks, finding("jobs from "+found.node, found.submits == "submits", "it may submit the jobs of further nodes",
			"sbatch on it answers "+strconv.Quote(found.submits), nodesMayNotSubmit))
	}
	return append(checks, checkNetwork(found.node, found.address, found.ports)...)
}

// nodesMayNotSubmit is what a user can do where compute nodes may not submit jobs.
const nodesMayNotSubmit = "nodes above minReplicas, and the gang of an early head, come only while `rayctl run`, `up` or `submit` watches the cluster and submits their jobs: keep one attached, or ask your site's administrators to let compute nodes submit jobs"

// putCompanion writes a batch script that nodes submit, of an early head's gang or the first elastic group, into the directory, and returns its name; "" if there is none.
func (site *Site) putCompanion(ctx context.Context, p script.Plan) (string, error) {
	scripts, err := p.Companions()
	if err != nil {
		return "", err
	}
	names := p.Granted()
	if len(names) == 0 {
		return "", nil
	}
	return names[0], site.Runs.Files.WriteBytes(ctx, path.Join(p.Run, names[0]), []byte(scripts[names[0]]))
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

// checkPrograms checks the versions that a node's interpreter reported of itself and of Ray. With containers that is the one that runs the keeper, and Ray is inside.
func checkPrograms(found seen, s *spec.ClusterSpec) []launcher.Check {
	pythonHint, rayHint := "set ray.python, or slurm.python where it differs, to one that the nodes have, or bring it by slurm.modules",
		"set ray.python to an interpreter that has Ray, or bring it by slurm.modules or setup"
	if slurmspec.InContainer(s) {
		pythonHint = "set slurm.python to one that the nodes have: outside of the container it runs the keeper"
		rayHint = "set ray.python to the image's interpreter that has Ray, or bring it by setup"
	}
	checks := []launcher.Check{checkPython(found.node, found.python, pythonHint)}
	if !checks[0].OK {
		return checks
	}
	if slurmspec.InContainer(s) {
		checks = append(checks, checkContainer(found, slurmspec.Of(s)))
		if said, _, _ := strings.Cut(found.container, " "); said != "ok" {
			return checks
		}
	}
	checks = append(checks, checkRay(found.node, found.ray, rayHint, s))
	if version, known := strings.CutPrefix(found.ray, "ray "); known && s.Ray.Version == "" {
		s = spec.Copy(s)
		s.Ray.Version = version
		checks = append(checks, checkToken(s))
	}
	return checks
}

// checkToken reports who can connect to a cluster without a token. That is no failure: older versions of Ray have none.
func checkToken(s *spec.ClusterSpec) launcher.Check {
	return check("token", cmp.Or(script.Open(s), "Ray checks the cluster's token"), nil, "")
}

// checkContainer checks whether a node starts the container of the file. An image that takes long to load is no fault: launches wait longer.
func checkContainer(found seen, c *slurmspec.Section) launcher.Check {
	said, words, _ := strings.Cut(found.container, " ")
	if said == "late" {
		return check("container on "+found.node, "not checked: "+c.ContainerImage+" did not start within "+words+" s, and a launch has lifetime.start for it", nil, "")
	}
	return finding("container on "+found.node, said == "ok", c.ContainerRuntime+" starts "+c.ContainerImage, c.ContainerRuntime+" does not start "+c.ContainerImage+": "+words,
		"correct slurm.containerImage, slurm.containerArgs or mounts; slurm.modules may bring the runtime")
}

func checkPython(node, said, hint string) launcher.Check {
	var major, minor int
	n, _ := fmt.Sscanf(said, "%d.%d", &major, &minor)
	return finding("python on "+node, n == 2 && (major > 3 || major == 3 && minor >= 8), said, "it reports "+strconv.Quote(said)+", and 3.8 or later is needed", hint)
}

func checkRay(node, said, hint string, s *spec.ClusterSpec) launcher.Check {
	name := "Ray on " + node
	version, ok := strings.CutPrefix(said, "ray ")
	if !ok {
		return launcher.Check{Name: name, Detail: said, Hint: hint}
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
		c = launcher.Check{Name: "clock", Detail: fmt.Sprintf("a node's clock differs by %s", skew.Round(time.Second)), Hint: "times in records will be wrong; notify your site's administrators"}
	}
	return c
}
