package controller

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Job is one Slurm job as the controller reports it.
type Job struct {
	ID        int
	HetJobID  int // the leader's id of a heterogeneous job; 0: none
	HetOffset int
	Name      string
	User      string
	Comment   string
	State     string   // PENDING, RUNNING, ...: the base state, without flags
	Flags     []string // COMPLETING, REQUEUED, ...
	Reason    string   // why it waits, or why it ended: Resources, Priority, JobLaunchFailure
	Detail    string   // the controller's longer description of the reason, if it has one
	Partition string
	NodeList  string // node[1-4]
	NodeCount int
	BatchHost string
	WorkDir   string // as it was submitted: the run's directory of a job of ours
	Restarts  int
	ExitCode  int
	Signal    int
	Submit    time.Time
	Start     time.Time // of a pending job: expected, zero if the scheduler has not planned it
	End       time.Time
}

// Base states of jobs, squeue(1) JOB STATE CODES.
const (
	StatePending   = "PENDING"
	StateRunning   = "RUNNING"
	StateSuspended = "SUSPENDED"
	StateCompleted = "COMPLETED"
	StateCancelled = "CANCELLED"
	StateFailed    = "FAILED"
	StateTimeout   = "TIMEOUT"
	StateNodeFail  = "NODE_FAIL"
	StatePreempted = "PREEMPTED"
	StateDeadline  = "DEADLINE"
	StateBootFail  = "BOOT_FAIL"
	StateOOM       = "OUT_OF_MEMORY"
)

// Leader is the id by which sbatch, scancel and scontrol know the job.
func (j Job) Leader() int {
	if j.HetJobID != 0 {
		return j.HetJobID
	}
	return j.ID
}

// Ended reports whether the job has released its nodes; a COMPLETING job has not.
func (j Job) Ended() bool {
	if j.Has("COMPLETING") {
		return false
	}
	switch j.State {
	case StateCompleted, StateCancelled, StateFailed, StateTimeout, StateNodeFail, StatePreempted, StateDeadline, StateBootFail, StateOOM:
		return true
	}
	return false
}

// Released is when the job last gave its nodes back: a job that is queued again counts as submitted then (slurm/src/slurmctld/job_mgr.c,
// batch_requeue_fini). Zero while it has them.
func (j Job) Released() time.Time {
	switch {
	case j.State == StatePending:
		return j.Submit
	case j.Ended():
		return j.End
	}
	return time.Time{}
}

// Has reports whether the job's state carries a flag.
func (j Job) Has(flag string) bool {
	for _, f := range j.Flags {
		if f == flag {
			return true
		}
	}
	return false
}

// parseJSON reads the jobs of slurmrestd, of every data parser from v0.0.38
// (22.05) to v0.0.45 (26.05): job_state became a list and numbers became objects in between.
func parseJSON(b []byte) ([]Job, error) {
	var doc struct {
		Jobs   []jsonJob `json:"jobs"`
		Errors []struct {
			Error       string `json:"error"`
			Description string `json:"description"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("the answer of Slurm is not the JSON it documents: %w", err)
	}
	if len(doc.Errors) > 0 && len(doc.Jobs) == 0 {
		return nil, fmt.Errorf("%s", strings.TrimSpace(doc.Errors[0].Description+" "+doc.Errors[0].Error))
	}
	jobs := make([]Job, 0, len(doc.Jobs))
	for _, j := range doc.Jobs {
		jobs = append(jobs, j.job())
	}
	return jobs, nil
}

type jsonJob struct {
	ID        number `json:"job_id"`
	HetJobID  number `json:"het_job_id"`
	HetOffset number `json:"het_job_offset"`
	Name      string `json:"name"`
	User      string `json:"user_name"`
	Comment   string `json:"comment"`
	State     words  `json:"job_state"`
	Reason    string `json:"state_reason"`
	Detail    string `json:"state_description"`
	Partition string `json:"partition"`
	Nodes     string `json:"nodes"`
	NodeCount number `json:"node_count"`
	BatchHost string `json:"batch_host"`
	WorkDir   string `json:"current_working_directory"`
	Restarts  number `json:"restart_cnt"`
	Exit      exit   `json:"exit_code"`
	Submit    number `json:"submit_time"`
	Start     number `json:"start_time"`
	End       number `json:"end_time"`
}

func (j jsonJob) job() Job {
	out := Job{
		ID: int(j.ID), HetJobID: int(j.HetJobID), HetOffset: int(j.HetOffset), Name: j.Name, User: j.User, Comment: j.Comment,
		Reason: noneIsEmpty(j.Reason), Detail: j.Detail, Partition: j.Partition, NodeList: j.Nodes, NodeCount: int(j.NodeCount),
		BatchHost: j.BatchHost, WorkDir: j.WorkDir, Restarts: int(j.Restarts), ExitCode: j.Exit.code, Signal: j.Exit.signal,
		Submit: unix(int64(j.Submit)), Start: unix(int64(j.Start)), End: unix(int64(j.End)),
	}
	out.setState(j.State)
	return out
}

// baseStates are all base states; whatever else stands beside one is a flag.
var baseStates = []string{StatePending, StateRunning, StateSuspended, StateCompleted, StateCancelled, StateFailed, StateTimeout, StateNodeFail,
	StatePreempted, StateDeadline, StateBootFail, StateOOM}

// flagged are the base states of jobs of which squeue's text form shows a flag instead (slurm/src/common/slurm_protocol_defs.c, job_state_string):
// the flags that only jobs have that run, or that wait. Of others, COMPLETING first of all, the base state is one of the ended.
var flagged = map[string]string{
	"CONFIGURING": StateRunning, "RESIZING": StateRunning, "STOPPED": StateRunning, "SIGNALING": StateRunning, "POWER_UP_NODE": StateRunning,
	"REQUEUED": StatePending, "REQUEUE_FED": StatePending, "REQUEUE_HOLD": StatePending, "SPECIAL_EXIT": StatePending, "RESV_DEL_HOLD": StatePending,
}

// setState splits ["CANCELLED", "COMPLETING"] into base state and flags.
func (j *Job) setState(all []string) {
	implied := StateCompleted
	for _, s := range all {
		if slices.Contains(baseStates, s) {
			j.State = s
			continue
		}
		j.Flags = append(j.Flags, s)
		if flagged[s] != "" {
			implied = flagged[s]
		}
	}
	if j.State == "" {
		j.State = implied
	}
}

// number is 5, {"set":true,"infinite":false,"number":5} (since 23.02), or null.
type number int64

func (n *number) UnmarshalJSON(b []byte) error {
	var plain *float64
	if json.Unmarshal(b, &plain) == nil {
		if plain != nil {
			*n = number(*plain)
		}
		return nil
	}
	var o struct {
		Set    bool    `json:"set"`
		Number float64 `json:"number"`
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	if o.Set {
		*n = number(o.Number)
	}
	return nil
}

// words is "RUNNING" (22.05) or ["RUNNING"].
type words []string

func (w *words) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*w = strings.Fields(one)
		return nil
	}
	return json.Unmarshal(b, (*[]string)(w))
}

// exit is a raw wait status (22.05: 768 is exit 3), or an object with return_code and signal (since 23.11).
type exit struct{ code, signal int }

func (e *exit) UnmarshalJSON(b []byte) error {
	var o struct {
		ReturnCode number `json:"return_code"`
		Signal     struct {
			ID number `json:"id"`
		} `json:"signal"`
	}
	if json.Unmarshal(b, &o) == nil {
		e.code, e.signal = int(o.ReturnCode), int(o.Signal.ID)
		if e.code == 0 && e.signal == 0 {
			return e.raw(b)
		}
		return nil
	}
	return e.raw(b)
}

// raw reads a wait status; an object whose number is a wait status (23.02) too.
func (e *exit) raw(b []byte) error {
	var n number
	if err := n.UnmarshalJSON(b); err != nil {
		return err
	}
	e.code, e.signal = int(n>>8)&0xff, int(n)&0x7f
	return nil
}

func unix(s int64) time.Time {
	if s <= 0 {
		return time.Time{}
	}
	return time.Unix(s, 0).UTC()
}

func noneIsEmpty(s string) string {
	if s == "None" {
		return ""
	}
	return s
}

func naIsEmpty(s string) string {
	if s == "(null)" || s == "n/a" || s == "N/A" {
		return ""
	}
	return s
}
