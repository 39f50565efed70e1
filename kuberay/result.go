package kuberay

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Result reads the record: its pod's termination message is the final state document, its log the driver's.
func (l *Launcher) Result(ctx context.Context, id launcher.ID) (*launcher.Result, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	if r := l.resident(id); r != nil {
		return r.result(id, c.namespace)
	}
	name := string(id)
	record, err := c.record(ctx, name)
	if err != nil {
		return nil, err
	}
	if record == nil || !jobEnded(record) {
		return nil, c.noResult(ctx, id, record)
	}
	pods, err := c.podsOf(ctx, record)
	if err != nil {
		return nil, err
	}
	o := &snapshot{now: endOf(record), record: record, pods: pods}
	st := left(o)
	if st == nil || st.Exit.Cause == runstate.CauseLost { // so it seems to the record; the keeper knows better
		if lives, err := c.keeperLives(ctx, name); lives || err != nil {
			return nil, cmp.Or(err, error(launcher.NotEnded(id)))
		}
	}
	saved, info, err := c.savedLog(ctx, o, st)
	if err != nil {
		return nil, err
	}
	s := finalStatus(id, c.namespace, o, recordedBy(o))
	return launcher.NewResult(s, info, saved.open), nil
}

// noResult tells a cluster that lives from none.
func (c *client) noResult(ctx context.Context, id launcher.ID, record *batchv1.Job) error {
	if record != nil {
		return launcher.NotEnded(id)
	}
	if job, err := c.job(ctx, string(id)); err != nil || job != nil {
		if err != nil {
			return err
		}
		return launcher.NotEnded(id)
	}
	_, err := c.getCluster(ctx, id)
	if err == nil {
		return launcher.NotEnded(id)
	}
	if apierrors.IsNotFound(err) {
		return launcher.NotFound(id)
	}
	return explain(err, "get", rayClusters.GroupResource().String(), c)
}

// keeperLives says whether the cluster's Job is at work.
func (c *client) keeperLives(ctx context.Context, name string) (bool, error) {
	job, err := c.job(ctx, name)
	return job != nil && job.DeletionTimestamp == nil && !jobEnded(job), err
}

// podsOf lists a Job's pods.
func (c *client) podsOf(ctx context.Context, job *batchv1.Job) ([]*corev1.Pod, error) {
	list, err := c.core.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name})
	if err != nil {
		return nil, explain(err, "list", "pods", c)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// recorded reads what a record's pods left; nil if they left nothing.
func (c *client) recorded(ctx context.Context, record *batchv1.Job) (*runstate.State, error) {
	pods, err := c.podsOf(ctx, record)
	return recordedBy(&snapshot{record: record, pods: pods}), err
}

// recordedBy finds the final state document among the record's pods, or on the Job where a client had to write it.
func recordedBy(o *snapshot) *runstate.State {
	if st := left(o); st != nil {
		return &st.State
	}
	return nil
}

func left(o *snapshot) *recordState {
	if p := recordPod(o); p != nil {
		if st := decodeState(terminationMessage(p)); st != nil {
			asCommitted(o.record, st)
			return st
		}
	}
	if o.record != nil {
		return decodeState(o.record.Annotations[annotationResult])
	}
	return nil
}

// asCommitted corrects what a record's pod left that never reached a keeper: to it a launch that was committed looks like one that was not.
func asCommitted(record *batchv1.Job, st *recordState) {
	if record == nil || record.Annotations[annotationCommitted] == "" || st.Exit == nil || st.Exit.Cause != runstate.CauseAbandoned || st.Committed {
		return
	}
	runstate.Overrule(&st.State, runstate.Verdict{Cause: runstate.CauseLost, Message: "the keeper was deleted before it could save the result"})
	st.Log = &runstate.Log{Missing: [][2]int64{{0, -1}}}
}

// recordPod is the record's pod that has succeeded.
func recordPod(o *snapshot) *corev1.Pod {
	for _, p := range o.role(roleRecord) {
		if p.Status.Phase == corev1.PodSucceeded {
			return p
		}
	}
	return nil
}

func terminationMessage(p *corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == recordContainer && c.State.Terminated != nil {
			return c.State.Terminated.Message
		}
	}
	return ""
}

// recordState is what record.py leaves.
type recordState struct {
	runstate.State
	Packed  bool    `json:"packed"`  // the log is packed, because the kubelet would have dropped its beginning
	Earlier []int64 `json:"earlier"` // bytes of the logs of attempts before the last, which stand before its own
}

// decodeState reads a state document as record.py writes it: JSON, or packed where that is too long.
func decodeState(text string) *recordState {
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
	st := &recordState{}
	if json.Unmarshal([]byte(text), st) != nil || st.Exit == nil {
		return nil
	}
	return st
}

// Forget removes the record of an ended cluster. A Job that only has its name is left alone.
func (l *Launcher) Forget(ctx context.Context, id launcher.ID) error {
	c, err := l.kube(ctx)
	if err != nil {
		return err
	}
	if job, err := c.job(ctx, string(id)); err != nil || job != nil {
		if err != nil {
			return err
		}
		return launcher.NotEnded(id)
	}
	record, err := c.anyJob(ctx, recordName(string(id)))
	if err != nil || record == nil {
		return err
	}
	if !isOurs(record, roleRecord, string(id)) {
		return taken(record)
	}
	if err := c.deleteJob(ctx, record.Name, record.UID); err != nil {
		return err
	}
	return c.awaitGone(ctx, record.Name)
}
