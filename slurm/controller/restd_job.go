package controller

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// wholeJob has the fields of a submission for the job as a whole.
type wholeJob struct {
	name, dir, output, comment, script string
	dependency, begin, deadline        string // as sbatch takes them
	array, minutes                     string
	requeue, licensed                  bool // licensed: its first component may ask for licences
	warning                            int  // seconds before its time limit at which its batch script gets a signal
}

// request is the body of a submission. It repeats the script's #SBATCH lines, which slurmrestd does not read.
func (b Batch) request(version string) (map[string]any, error) {
	if b.Argv != nil {
		return b.companion(version)
	}
	text, err := b.Plan.Script()
	if err != nil {
		return nil, err
	}
	s := b.Plan.Spec
	return b.body(b.Plan.Components(), wholeJob{
		name: s.Name, dir: b.Plan.Run, output: strings.ReplaceAll(path.Join(b.Plan.Run, script.OutFile), "%", "%%"), comment: b.Plan.Comment(), script: text,
		dependency: slurmspec.Of(s).Dependency, begin: slurmspec.Of(s).Begin, deadline: b.Plan.Deadline(), minutes: b.Plan.TimeLimit(),
		requeue: b.Plan.Requeues(), licensed: !s.Head.Early, warning: int(b.Plan.Warning().Seconds()),
	}, version)
}

// body is a job of these components.
func (b Batch) body(components []script.Component, w wholeJob, version string) (map[string]any, error) {
	var parts []map[string]any
	for i, c := range components {
		part := common(c, w)
		if err := extraArgs(part, b.Plan.ExtraArgs(c, i == 0 && w.licensed), version); err != nil {
			return nil, err
		}
		b.size(part, c, version)
		add := b.newer
		if version == v38 {
			add = b.older
		}
		if err := add(part, c, w); err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	body := map[string]any{}
	if version == v38 {
		body["script"] = w.script
	} else {
		parts[0]["script"] = w.script
	}
	if len(parts) == 1 {
		body["job"] = parts[0]
	} else {
		body["jobs"] = parts
	}
	return body, nil
}

func cannot(key, why string) error {
	return launcher.Fail(runstate.CodeSpec, nil, "leave it out, or use slurm.transport ssh or local", "slurmrestd cannot be given %s%s", key, why)
}

// common are the fields that all versions have alike. As with sbatch, fields of the job as a whole are repeated in each part.
func common(c script.Component, w wholeJob) map[string]any {
	g := c.Request.Slurm
	part := map[string]any{"name": w.name, "current_working_directory": w.dir, "standard_output": w.output}
	for key, value := range map[string]string{
		"partition": g.Partition, "account": g.Account, "qos": g.QOS, "reservation": g.Reservation, "constraints": c.Request.Constraint,
		"comment": w.comment, "dependency": w.dependency, "array": w.array,
	} {
		if value != "" {
			part[key] = value
		}
	}
	return part
}

// sizeFields are the fields for the options of plan.size.
var sizeFields = map[string]string{
	"--nodes": "nodes", "--ntasks-per-node": "tasks_per_node", "--ntasks": "tasks", "--cpus-per-task": "cpus_per_task", "--mem": "memory_per_node", "--mem-per-cpu": "memory_per_cpu",
}

// size translates plan.size, so that workers are placed as by the rendered script.
func (b Batch) size(part map[string]any, c script.Component, version string) {
	for _, option := range b.Plan.Size(c) {
		name, value, _ := strings.Cut(option, "=")
		field, n := sizeFields[name], script.Megabytes(value)
		switch {
		case version == v38:
			part[field] = n
		case field == "nodes":
			part[field] = value
		case strings.HasPrefix(field, "memory_"):
			part[field] = set(n)
		default:
			part[field] = n
		}
	}
}

// older are the fields as 22.05 has them, whose parser takes sbatch's own options. It has no --switches, and no way to signal the Batch script: there
// only the keeper's own limits warn the driver.
func (b Batch) older(part map[string]any, c script.Component, w wholeJob) error {
	g := c.Request.Slurm
	if g.Switches != "" {
		return cannot("slurm.switches", " in Slurm 22.05")
	}
	part["environment"] = b.variables()
	for key, value := range map[string]string{"nodelist": g.Nodelist, "exclude_nodes": g.Exclude, "gpus_per_node": c.Request.GPUs} {
		if value != "" {
			part[key] = value
		}
	}
	if g.Exclusive != nil && *g.Exclusive {
		part["exclusive"] = "exclusive"
	}
	if w.minutes != "" {
		part["time_limit"], _ = strconv.Atoi(w.minutes)
	}
	if w.requeue {
		part["requeue"] = true
	} else {
		part["no_requeue"] = true // with "requeue": false it would be requeued all the same
	}
	part["open_mode"] = "append"
	for key, value := range map[string]string{"begin_time": w.begin, "deadline": w.deadline} {
		if value != "" {
			part[key] = value
		}
	}
	return nil
}

// newer are the fields of v0.0.40 (23.11) and later.
func (b Batch) newer(part map[string]any, c script.Component, w wholeJob) error {
	g := c.Request.Slurm
	part["environment"] = b.Environment
	for key, value := range map[string]string{"required_nodes": g.Nodelist, "excluded_nodes": g.Exclude} {
		if value != "" {
			part[key] = []string{value}
		}
	}
	if c.Request.GPUs != "" {
		part["tres_per_node"] = "gres/gpu:" + c.Request.GPUs
	}
	if g.Exclusive != nil && *g.Exclusive {
		part["shared"] = []string{"none"}
	}
	if w.minutes != "" {
		n, _ := strconv.Atoi(w.minutes)
		part["time_limit"] = set(n)
	}
	if err := switches(part, g.Switches); err != nil {
		return err
	}
	part["requeue"] = w.requeue
	part["open_mode"] = []string{"APPEND"}
	part["kill_warning_signal"], part["kill_warning_flags"] = "USR1", []string{"BATCH_JOB"}
	part["kill_warning_delay"] = set(w.warning)
	return times(part, w)
}

// set is a number as the API takes it since 23.02.
func set(n int) map[string]any { return map[string]any{"set": true, "number": n} }

// switches translates COUNT[@WAIT]. A wait without a unit is in minutes, as sbatch takes it.
func switches(part map[string]any, value string) error {
	if value == "" {
		return nil
	}
	count, wait, waits := strings.Cut(value, "@")
	n, err := strconv.Atoi(count)
	if err == nil {
		part["required_switches"] = set(n)
	}
	if err == nil && waits {
		if _, e := strconv.Atoi(wait); e == nil {
			wait += "m"
		}
		var d time.Duration
		if d, err = units.ParseDuration(wait); err == nil {
			part["wait_for_switch"] = int(d.Seconds())
		}
	}
	if err != nil {
		return launcher.Fail(runstate.CodeSpec, err, "write it like 1@10:00", "slurm.switches is %q: %v", value, err)
	}
	return nil
}

// times translates --begin and --deadline, which the API takes as seconds since 1970.
func times(part map[string]any, w wholeJob) error {
	if text := w.begin; text != "" {
		at, err := slurmMoment(text, time.Now())
		if err != nil {
			return cannot("slurm.begin: "+text, "")
		}
		part["begin_time"] = set(int(at.Unix()))
	}
	if text := w.deadline; text != "" {
		at, err := slurmMoment(text, time.Now())
		if err != nil {
			return err
		}
		part["deadline"] = at.Unix()
	}
	return nil
}

var fromNow = regexp.MustCompile(`^now(?:\+(\d+)\s*(second|minute|hour|day|week)?s?)?$`)

// slurmMoment parses the forms of sbatch --begin that do not depend on the controller's calendar: now+COUNT[UNIT], and dates with times, which are of
// this machine's time zone.
func slurmMoment(text string, now time.Time) (time.Time, error) {
	if m := fromNow.FindStringSubmatch(text); m != nil {
		units := map[string]time.Duration{"": time.Second, "second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour}
		n, _ := strconv.Atoi("0" + m[1])
		return now.Add(time.Duration(n) * units[m[2]]), nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time", text)
}

// variables are the environment as 22.05 takes it.
func (b Batch) variables() map[string]string {
	out := map[string]string{}
	for _, v := range b.Environment {
		name, value, _ := strings.Cut(v, "=")
		out[name] = value
	}
	return out
}
