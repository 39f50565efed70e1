package launcher

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Receipt is the account of one run: what happened when, what it cost, how it ended and whose exit code that is.
type Receipt struct {
	Name         string            `json:"name"`
	Launcher     string            `json:"launcher"`
	Owner        string            `json:"owner,omitempty"`
	Where        string            `json:"where,omitempty"`
	SubmissionID string            `json:"submissionId,omitempty"`
	State        runstate.JobState `json:"state,omitempty"`     // of the last attempt's job, as in status -o json
	Command      string            `json:"command,omitempty"`   // of the user
	Prepare      *runstate.Prepare `json:"prepare,omitempty"`   // job.prepare, if it ran in the last attempt
	Ranks        bool              `json:"ranks,omitempty"`     // the command ran on every node (job.launch)
	OutputDir    string            `json:"outputDir,omitempty"` // where the driver left results
	SpecHash     string            `json:"specHash,omitempty"`
	RayVersion   string            `json:"rayVersion,omitempty"`
	FastStart    bool              `json:"fastStart"` // rayctl changed functions inside `ray start`, see ray.fastStart
	Created      time.Time         `json:"created"`
	Ended        time.Time         `json:"ended"`
	Exit         runstate.Exit     `json:"exit"`
	Durations    Durations         `json:"durations"`
	Usage        Usage             `json:"usage"`
	GPUs         []runstate.GPUUse `json:"gpus,omitempty"` // what was measured of them, by node
	// Allocations are what the substrate granted, the oldest first.
	Allocations []runstate.Allocation `json:"allocations,omitempty"`
	// FormerAllocations are the sums of nodes of elastic groups that ended long ago and are not listed any more.
	FormerAllocations []runstate.FormerAllocations `json:"formerAllocations,omitempty"`
	Attempts          []runstate.Attempt           `json:"attempts,omitempty"`
	// EndedSubmissions are the jobs that were submitted to a cluster without a job of its own; nil: none.
	EndedSubmissions *runstate.EndedSubmissions `json:"endedSubmissions,omitempty"`
	// Figures are those that the last attempt's driver gave, by name.
	Figures  map[string]float64 `json:"figures,omitempty"`
	Timeline []runstate.Event   `json:"timeline"`
	Log      LogInfo            `json:"log"`
}

// NewReceipt accounts for a cluster that has ended.
func NewReceipt(r *Result) *Receipt {
	rc := &Receipt{
		Name: r.Name, Launcher: r.Launcher, Owner: r.Owner, Where: r.Where, SpecHash: r.SpecHash,
		RayVersion: r.Head.RayVersion, FastStart: r.Head.FastStart, Created: r.Created, Ended: r.Since,
		Allocations: r.Allocations, FormerAllocations: r.FormerAllocations, Attempts: r.Attempts, Timeline: r.Timeline, Log: r.Log, GPUs: r.GPUs, EndedSubmissions: r.EndedSubmissions,
	}
	if r.Exit != nil {
		rc.Exit = *r.Exit
	}
	if r.Job != nil {
		rc.SubmissionID, rc.State, rc.Command, rc.OutputDir = r.Job.SubmissionID, r.Job.State, driverio.UserCommand(r.Job.Entrypoint), r.Job.OutputDir
		rc.Ranks = driverio.HasRanks(r.Job.Entrypoint)
		if r.Job.Prepares() {
			rc.Prepare = r.Job.Prepare
		}
	}
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Attempt == r.Attempt {
		rc.Figures = r.Attempts[n-1].Figures
	}
	var drivers []span
	rc.Durations, drivers = durations(r.Timeline, r.Job != nil, r.Created, r.Since)
	rc.Usage = usage(r, rc.Durations, drivers)
	return rc
}

// Status is the last status of the cluster, as far as its receipt has it.
func (rc *Receipt) Status() Status {
	s := Status{
		Name: rc.Name, Launcher: rc.Launcher, Owner: rc.Owner, Ours: true, SpecHash: rc.SpecHash, Where: rc.Where,
		Phase: runstate.Gone, Reason: runstate.Reason{Code: rc.Exit.Cause, Message: rc.Exit.Message}, Since: rc.Ended, Created: rc.Created, Attempt: max(1, len(rc.Attempts)),
		GPUs: rc.GPUs, Allocations: rc.Allocations, FormerAllocations: rc.FormerAllocations, Head: runstate.Head{RayVersion: rc.RayVersion, FastStart: rc.FastStart},
		EndedSubmissions: rc.EndedSubmissions, Timeline: rc.Timeline, Attempts: rc.Attempts, Exit: clone(&rc.Exit),
	}
	if rc.State != "" {
		s.Job = &runstate.Job{SubmissionID: rc.SubmissionID, State: rc.State, Entrypoint: rc.Command, OutputDir: rc.OutputDir, Prepare: rc.Prepare}
	}
	s.missing(rc.Log.Missing)
	return s
}

// WriteText prints the receipt for a person.
func (rc *Receipt) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", rc.Name, rc.Exit.Sentence())
	fmt.Fprintf(&b, "  time    %s\n", rc.Durations.Text())
	u := rc.Usage
	fmt.Fprintf(&b, "  nodes   %d: %s node-seconds allocated, %s busy, %s idle\n", u.Nodes, num(u.NodeSeconds), num(u.BusyNodeSeconds), num(u.WastedNodeSeconds))
	if u.GPUs > 0 {
		fmt.Fprintf(&b, "  GPUs    %g: %s GPU-seconds allocated, %s busy, %s idle\n", u.GPUs, num(u.GPUSeconds), num(u.BusyGPUSeconds), num(u.WastedGPUSeconds))
	}
	if u.MeasuredGPUSeconds > 0 {
		fmt.Fprintf(&b, "          %s GPU-seconds measured, %s busy (%s)\n", num(u.MeasuredGPUSeconds), num(u.MeasuredBusyGPUSeconds), Share(u.MeasuredBusyGPUSeconds, u.MeasuredGPUSeconds))
	}
	if len(rc.Attempts) > 1 {
		fmt.Fprintf(&b, "  attempts %d\n", len(rc.Attempts))
		for _, a := range rc.Attempts {
			fmt.Fprintf(&b, "    %d     %s %s", a.Attempt, a.Cause, a.Message)
			if len(a.Figures) > 0 {
				fmt.Fprintf(&b, " (%s)", figuresText(a.Figures))
			}
			b.WriteByte('\n')
		}
	}
	if len(rc.Figures) > 0 {
		fmt.Fprintf(&b, "  figures %s\n", figuresText(rc.Figures))
	}
	fmt.Fprintf(&b, "  log     %s (%d bytes)\n", cmp.Or(rc.Log.Path, "`rayctl logs "+rc.Name+"`"), rc.Log.Bytes)
	for _, m := range rc.Log.Missing {
		fmt.Fprintf(&b, "          %s\n", MissingOutput(m))
	}
	if rc.Ranks {
		fmt.Fprintf(&b, "          `rayctl logs %s --rank N` prints what rank N wrote, and `--rank-files DIR` makes a file for each\n", rc.Name)
	}
	if rc.OutputDir != "" {
		fmt.Fprintf(&b, "  output  %s\n", rc.OutputDir)
	}
	for _, e := range rc.Timeline {
		if e.Kind == runstate.EventFiles {
			fmt.Fprintf(&b, "  files   %s\n", e.Message)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// figuresText lists figures for people: loss 0.25, steps_lost 3.
func figuresText(figures map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		parts = append(parts, fmt.Sprintf("%s %g", name, figures[name]))
	}
	return strings.Join(parts, ", ")
}

// Human formats seconds for people: 0.8 s, 46 s, 3 min 20 s, 2 h 5 min.
func Human(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	case s < 100:
		return fmt.Sprintf("%.0f s", s)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
}

// Stamp formats a time for people, as everywhere in rayctl: RFC 3339 in UTC.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Share is a part of a whole in percent, for people.
func Share(part, whole float64) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*part/whole)
}

func num(f float64) string { return fmt.Sprintf("%.1f", f) }
