package slurm

import (
	"testing"
	"time"

	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/script"
)

// TestFindJob: a job is known by its id, which Slurm may give to another one of the user's jobs; without an id by what it was submitted with.
func TestFindJob(t *testing.T) {
	created := time.Now()
	ours := controller.Job{ID: 7, Name: "c", User: "me", WorkDir: "/runs/c", Comment: script.Comment("c", "hash", "OURS"), State: controller.StatePending, Submit: created}
	with := func(change func(*controller.Job)) controller.Job {
		j := ours
		change(&j)
		return j
	}
	rewritten := with(func(j *controller.Job) { j.Comment = "x" })
	for name, test := range map[string]struct {
		id   int // as the run's directory has it
		jobs []controller.Job
		want int // 0: not found
	}{
		"by id":                              {7, []controller.Job{{ID: 6}, ours}, 7},
		"comment rewritten":                  {7, []controller.Job{rewritten}, 7},
		"comment and directory rewritten":    {7, []controller.Job{with(func(j *controller.Job) { j.Comment, j.WorkDir = "", "/real/runs/c" })}, 7},
		"comment and name rewritten":         {7, []controller.Job{with(func(j *controller.Job) { j.Comment, j.Name = "", "d" })}, 7},
		"the id is another program's":        {7, []controller.Job{{ID: 7, Name: "d", WorkDir: "/home"}}, 0},
		"the id is another launch's":         {7, []controller.Job{with(func(j *controller.Job) { j.Comment = script.Comment("c", "hash", "OTHER") })}, 0},
		"a copy of the comment":              {7, []controller.Job{with(func(j *controller.Job) { j.ID = 8 })}, 0},
		"no id":                              {0, []controller.Job{{ID: 6, WorkDir: "/runs/c"}, ours}, 7},
		"no id, comment rewritten":           {0, []controller.Job{{ID: 6}, rewritten}, 7},
		"no id, name rewritten too":          {0, []controller.Job{with(func(j *controller.Job) { j.Comment, j.Name = "", "d" })}, 0},
		"no id, an earlier launch's":         {0, []controller.Job{with(func(j *controller.Job) { j.Comment = script.Comment("c", "hash", "OTHER") })}, 0},
		"no id, an older job":                {0, []controller.Job{with(func(j *controller.Job) { j.Comment, j.Submit = "", created.Add(-time.Hour) })}, 0},
		"no id, ended":                       {0, []controller.Job{with(func(j *controller.Job) { j.Comment, j.State = "", controller.StateCompleted })}, 0},
		"no id, two like it":                 {0, []controller.Job{rewritten, with(func(j *controller.Job) { j.Comment, j.ID = "", 9 })}, 0},
		"one of two components is rewritten": {7, []controller.Job{with(func(j *controller.Job) { j.HetJobID, j.Comment = 7, "x" }), with(func(j *controller.Job) { j.ID, j.HetJobID, j.HetOffset = 8, 7, 1 })}, 7},
		"only a component":                   {7, []controller.Job{with(func(j *controller.Job) { j.ID, j.HetJobID, j.HetOffset = 8, 7, 1 })}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{run: &rundir.Run{Name: "c", Dir: "/runs/c", JobID: test.id, Record: &rundir.Record{Name: "c", Nonce: "OURS", Created: created}}}
			if j, found := c.findJob(test.jobs); found != (test.want != 0) || found && j.Leader() != test.want {
				t.Errorf("%v, %+v", found, j)
			}
		})
	}
}
