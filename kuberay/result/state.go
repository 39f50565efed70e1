// Package result reads what is left of a cluster that has ended: its record has the last state document and the driver's log, or what is kept of submitted jobs. It also closes the
// record of a cluster whose keeper cannot.
//
// The record serves nothing: its pod fetches the result from the keeper and ends, and Kubernetes keeps the pod's termination message and log for lifetime.keep.
// A pod that served them, with the keeper's HTTP code (keeper/rayctl_keeper/http), would hold its processor and memory for a week per run, would lose them
// with its node, and would need a Service and a token that outlive the cluster. Pods that do serve use that code: the keeper's, which hands its result over, and
// the one that takes the state of the keeper before it (keeper/rayctl_keeper/kubernetes/pod.py).
package result

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Read reads what a record's pods left; nil if they left nothing.
func Read(ctx context.Context, c *api.Client, record *batchv1.Job) (*runstate.State, error) {
	pods, err := c.PodsOf(ctx, record)
	return Of(&observe.Snapshot{Record: record, Pods: pods}), err
}

// Complete reports whether a record is complete, though another container may keep its pod.
func Complete(ctx context.Context, c *api.Client, record *batchv1.Job) (bool, error) {
	if observe.JobEnded(record) {
		return true, nil
	}
	pods, err := c.PodsOf(ctx, record)
	return (&observe.Snapshot{Record: record, Pods: pods}).RecordEnded(), err
}

// Of finds the final state document among the record's pods, or on the Job where a client had to write it.
func Of(o *observe.Snapshot) *runstate.State {
	if st := Left(o); st != nil {
		return &st.State
	}
	return nil
}

// Left finds all that the record's program has left in the final state document; nil if there is none.
func Left(o *observe.Snapshot) *State {
	if p := recordPod(o); p != nil {
		if st := decodeState(terminationMessage(p)); st != nil {
			asCommitted(o.Record, st)
			return st
		}
	}
	if o.Record != nil {
		return decodeState(o.Record.Annotations[objects.AnnotationResult])
	}
	return nil
}

// asCommitted corrects what a record's pod left that never reached a keeper: to it a launch that was committed looks like one that was not.
func asCommitted(record *batchv1.Job, st *State) {
	if record == nil || record.Annotations[objects.AnnotationCommitted] == "" || st.Exit == nil || st.Exit.Cause != runstate.CauseAbandoned || st.Committed {
		return
	}
	runstate.Overrule(&st.State, runstate.Verdict{Cause: runstate.CauseLost, Message: "the keeper was deleted before it could save the result"})
	st.Log = &runstate.Log{Missing: [][2]int64{{0, -1}}}
}

// recordPod is the record's pod whose own container has succeeded.
func recordPod(o *observe.Snapshot) *corev1.Pod {
	for _, p := range o.Role(objects.RoleRecord) {
		if observe.Succeeded(p, objects.RecordContainer) {
			return p
		}
	}
	return nil
}

func terminationMessage(p *corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == objects.RecordContainer && c.State.Terminated != nil {
			return c.State.Terminated.Message
		}
	}
	return ""
}

// State is what the record's program leaves.
type State struct {
	runstate.State
	Packed  bool    `json:"packed"`  // the log is packed, because the kubelet would have dropped its beginning
	Earlier []int64 `json:"earlier"` // bytes of the logs of attempts before the last, which stand before its own
	Jobs    bool    `json:"jobs"`    // the pod's log is what is kept of submitted jobs
}

// decodeState reads a state document as the record's program writes it: JSON, or packed where that is too long.
func decodeState(text string) *State {
	if packed, ok := strings.CutPrefix(text, "z:"); ok {
		raw, err := base64.StdEncoding.DecodeString(packed)
		if err != nil {
			return nil
		}
		r, err := zlib.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil
		}
		b, err := io.ReadAll(io.LimitReader(r, 1<<20))
		if err != nil {
			return nil
		}
		text = string(b)
	}
	st := &State{}
	if json.Unmarshal([]byte(text), st) != nil || st.Exit == nil {
		return nil
	}
	return st
}
