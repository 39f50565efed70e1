package slurm

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/script"
)

// Examine hands over the run's directory, the last attempt first, and what Slurm knows of its jobs.
func (l *Launcher) Examine(ctx context.Context, id launcher.ID, found launcher.Evidence) {
	c, err := l.open(ctx, id)
	if err != nil {
		found.Missing("run", err)
		return
	}
	found.Spec(c.run.Record.Spec)
	c.examineJobs(ctx, found)
	x := launcher.RunExaminer{Files: l.site.Runs.Files, Found: found}
	names, err := x.Files.Names(ctx, c.run.Dir)
	if err != nil {
		found.Missing("run", err)
	}
	var files []string
	var attempts []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			attempts = append(attempts, n)
		} else if strings.Contains(name, ".") { // documents, scripts and their output; the others are marks and directories
			files = append(files, name)
		}
	}
	slices.Sort(attempts)
	slices.Reverse(attempts)
	if !x.Some(ctx, c.run.Dir, "run", files...) {
		return
	}
	for _, n := range attempts {
		if !x.Attempt(ctx, c.run.Path(strconv.Itoa(n)), path.Join("run", strconv.Itoa(n))) {
			return
		}
	}
}

// examineJobs hands over what Slurm knows of the cluster's jobs: the controller of those that it has not forgotten, its database of all.
func (c *cluster) examineJobs(ctx context.Context, found launcher.Evidence) {
	jobs, err := c.l.site.Jobs(ctx)
	if err != nil {
		found.Missing("slurm/jobs.json", c.l.site.Unreachable(err))
	}
	mine := slices.DeleteFunc(jobs, func(j controller.Job) bool {
		return j.Leader() != c.run.JobID && script.NonceOf(j.Comment) != c.run.Record.Nonce && !c.isCompanion(j)
	})
	launcher.AddJSON(found, "slurm/jobs.json", mine)
	if c.run.JobID == 0 { // it was not submitted
		return
	}
	ids := []string{strconv.Itoa(c.run.JobID)}
	for _, j := range mine[:min(len(mine), mostJobs)] {
		ids = append(ids, strconv.Itoa(j.Leader()))
	}
	slices.Sort(ids)
	c.examineBy(ctx, found, "sacct", "--parsable2", "--duplicates", "--jobs="+strings.Join(slices.Compact(ids), ","), "--format="+sacctFields)
	c.examineBy(ctx, found, "scontrol", "show", "job", strconv.Itoa(c.run.JobID))
}

// examineBy hands over what one of Slurm's commands prints.
func (c *cluster) examineBy(ctx context.Context, found launcher.Evidence, command string, args ...string) {
	argv := []string{command}
	if own, ok := c.l.site.Controller.(controller.Commands); ok {
		argv = append(argv, controller.OfCluster(own.Cluster)...)
	}
	name := "slurm/" + command + ".txt"
	out, err := controller.Run(ctx, c.l.site.Runner, remote.Clean(append(argv, args...)...)...)
	if err != nil {
		found.Missing(name, err)
		return
	}
	found.Add(name, []byte(out), int64(len(out)))
}

// mostJobs is how many companion jobs of a cluster are looked up.
const mostJobs = 50

// sacctFields leave out what users write themselves: comments, and the command line of the submission.
const sacctFields = "JobID,JobName,Partition,Account,AllocTRES,State,ExitCode,DerivedExitCode,Reason,Submit,Eligible,Start,End,Elapsed,Timelimit,NodeList,MaxRSS"
