package site

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
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
	if s.Ray.Version != "" { // else the node's Ray decides
		checks = append(checks, checkToken(s))
	}
	federation := site.federation(ctx)
	checks = append(checks, checkFederation(federation)...)
	dir, _, err := site.Runs.Locate(ctx)
	probe := path.Join(dir, ".doctor-"+rand.Text())
	if err == nil {
		err = site.Runs.Files.WriteBytes(ctx, path.Join(probe, seenFile), []byte("ok"))
	}
	checks = append(checks, check("slurm.dir", dir, err, "set slurm.dir to a directory that you may write to and that all nodes share"))
	if err != nil {
		return checks
	}
	defer func() { _ = site.Runs.Files.Remove(context.WithoutCancel(ctx), probe) }() // a few bytes
	request, around := site.checkRequest(ctx, s, probe)
	checks = append(checks, request)
	if !request.OK {
		return checks
	}
	return append(checks, site.checkNode(ctx, script.Plan{Spec: s, Run: probe, Programs: probe, Cluster: federation.Self}, around)...)
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
	if err != nil && strings.Contains(err.Error(), "Could not resolve hostname") { // ssh's words
		return "correct slurm.host: ssh knows no such machine"
	}
	if controller.Away(err) && !NotInstalled(err) {
		return "ask your site's administrators whether slurmctld runs"
	}
	return "set slurm.host to a login node, or put Slurm's commands into PATH"
}

// checkRequest lets Slurm validate the file's request without submitting it: partition, account, QOS, GRES and sizes. With slurm.job: current it also returns the
// allocation.
func (site *Site) checkRequest(ctx context.Context, s *spec.ClusterSpec, probe string) (launcher.Check, Around) {
	if s.Name == "" {
		s.Name = "doctor"
	}
	if slurmspec.InCurrent(s) {
		a, err := site.Current(ctx, script.Plan{Spec: s})
		return check("request", a.String(), err, ""), a
	}
	p, start, err := site.wouldStart(ctx, s, probe)
	detail := "Slurm would take it: " + strings.Join(asked(p), ", ")
	switch {
	case err == nil && start.IsZero() && site.isREST():
		detail = "not checked: slurmrestd cannot check a request without submitting it"
	case err == nil && time.Until(start) > time.Minute:
		detail += "; " + Expected(start)
	case err != nil:
		err = site.Refused("what the file asks for", err)
	}
	return check("request", detail, err, ""), Around{}
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
	if err != nil {
		return p, start, err
	}
	companions, err := p.Companions()
	if err != nil {
		return p, start, err
	}
	for _, name := range p.Granted() {
		b.File = path.Join(dir, name)
		if err := site.Runs.Files.WriteBytes(ctx, b.File, []byte(companions[name])); err != nil {
			return p, start, err
		}
		own, err := site.PlannedStart(ctx, b)
		if err != nil {
			return p, start, err
		}
		if name == script.GangFile {
			start = own
		}
	}
	return p, start, nil
}

// TryRequest is checkRequest for a launch that replaces a cluster. Limits on how much one may have at a time are no refusal: what is there under the
// name counts against them.
func (site *Site) TryRequest(ctx context.Context, s *spec.ClusterSpec) error {
	if slurmspec.InCurrent(s) {
		_, err := site.Current(ctx, script.Plan{Spec: s})
		return err
	}
	dir, _, err := site.Runs.Locate(ctx)
	if err != nil {
		return err
	}
	probe := path.Join(dir, ".try-"+rand.Text())
	defer func() { _ = site.Runs.Files.Remove(context.WithoutCancel(ctx), probe) }() // one script
	_, _, err = site.wouldStart(ctx, s, probe)
	if err = site.Refused(s.Name, err); overLimit(err) {
		return nil
	}
	return err
}

// overLimit reports whether Slurm refused a job by a limit that what runs now may have reached.
func overLimit(err error) bool {
	return launcher.ExitCode(err) == runstate.CodePermission && strings.Contains(err.Error(), "accounting/QOS policy")
}

// TryCompanions finds what Slurm would never give of the jobs that the keeper submits, whose scripts are in the run's directory: an early head's gang, before the
// head waits for it, and the nodes of elastic groups. A limit that is reached now is no refusal of nodes that may come later.
func (site *Site) TryCompanions(ctx context.Context, b controller.Batch) error {
	for _, name := range b.Plan.Granted() {
		b.File = path.Join(b.Plan.Run, name)
		_, err := site.PlannedStart(ctx, b)
		if err == nil || controller.Away(err) {
			continue
		}
		what := "the nodes of elastic groups of " + b.Plan.Spec.Name
		if name == script.GangFile {
			what = "the gang of " + b.Plan.Spec.Name
		}
		if err = site.Refused(what, err); name == script.GangFile || !overLimit(err) {
			return err
		}
	}
	return nil
}

func (site *Site) isREST() bool { _, rest := site.Controller.(*controller.REST); return rest }

// asked lists what a job requests.
func asked(p script.Plan) (out []string) {
	for _, c := range slices.Concat(p.Components(), p.Gang()) {
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
