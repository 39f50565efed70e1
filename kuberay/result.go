package kuberay

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
)

// Result reads the record: its pod's termination message is the final state document, its log the driver's.
func (l *Launcher) Result(ctx context.Context, id launcher.ID) (*launcher.Result, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	name := string(id)
	record, err := c.job(ctx, recordName(name))
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
	o := &observed{now: endOf(record), record: record, pods: pods}
	st := recordedBy(o)
	s := finalStatus(id, c.namespace, o, st)
	info := launcher.LogInfo{}
	if st != nil && st.Log != nil {
		info.Bytes, info.Missing = st.Log.Bytes, st.Log.Missing
	}
	saved, err := c.savedLog(ctx, o, info.Bytes)
	if err != nil {
		return nil, err
	}
	if saved.missing > 0 {
		info.Missing = append([][2]int64{{0, saved.missing}}, info.Missing...)
	}
	return launcher.NewResult(s, info, saved.open), nil
}

// noResult tells a cluster that lives from none.
func (c *client) noResult(ctx context.Context, id launcher.ID, record *batchv1.Job) error {
	if record != nil {
		return notEnded(string(id))
	}
	if job, err := c.job(ctx, string(id)); err != nil || job != nil {
		if err != nil {
			return err
		}
		return notEnded(string(id))
	}
	_, err := c.dynamic.Resource(rayClusters).Namespace(c.namespace).Get(ctx, string(id), metav1.GetOptions{})
	if err == nil {
		return notEnded(string(id))
	}
	if apierrors.IsNotFound(err) {
		return launcher.NotFound(id)
	}
	return explain(err, "get", rayClusters.GroupResource().String(), c)
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
func (c *client) recorded(ctx context.Context, record *batchv1.Job) (*keeper.State, error) {
	pods, err := c.podsOf(ctx, record)
	return recordedBy(&observed{record: record, pods: pods}), err
}

// recordedBy finds the final state document among the record's pods, or on the Job where a client had to write it.
func recordedBy(o *observed) *keeper.State {
	if p := recordPod(o); p != nil {
		if st := decodeState(terminationMessage(p)); st != nil {
			return st
		}
	}
	if o.record != nil {
		return decodeState(o.record.Annotations[annotationResult])
	}
	return nil
}

// recordPod is the record's pod that has succeeded.
func recordPod(o *observed) *corev1.Pod {
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

// decodeState reads a state document as record.py writes it: JSON, or packed where that is too long.
func decodeState(text string) *keeper.State {
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
	st := &keeper.State{}
	if json.Unmarshal([]byte(text), st) != nil || st.Exit == nil {
		return nil
	}
	return st
}

// savedLog is the record's log. The kubelet may have dropped its beginning, and adds a newline to a last line without one.
type savedLog struct {
	c       *client
	pod     string
	bytes   int64
	missing int64 // bytes at the beginning that are gone
}

// rotates is the size below which no kubelet rotates a log (containerLogMaxSize is 10Mi by default, and counts its own prefix of each line).
const rotates = 1 << 20

func (c *client) savedLog(ctx context.Context, o *observed, size int64) (*savedLog, error) {
	s := &savedLog{c: c, bytes: size}
	p := recordPod(o)
	if p == nil {
		s.missing = size
		return s, nil
	}
	s.pod = p.Name
	if size < rotates {
		return s, nil
	}
	r, err := s.stream(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	n, err := io.Copy(io.Discard, r)
	if err != nil {
		return nil, explain(err, "get", "pods/log", c)
	}
	s.missing = max(0, size-n)
	return s, nil
}

func (s *savedLog) stream(ctx context.Context) (io.ReadCloser, error) {
	r, err := s.c.core.CoreV1().Pods(s.c.namespace).GetLogs(s.pod, &corev1.PodLogOptions{Container: recordContainer}).Stream(ctx)
	return r, explain(err, "get", "pods/log", s.c)
}

// open reads from a byte of the driver's log as Ray wrote it. Only the last attempt's is kept.
func (s *savedLog) open(ctx context.Context, _ int, offset int64) (io.ReadCloser, error) {
	if s.pod == "" || offset >= s.bytes {
		return emptyLog(ctx, 0, offset)
	}
	r, err := s.stream(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, r, max(0, offset-s.missing)); err != nil && err != io.EOF {
		r.Close()
		return nil, fmt.Errorf("read the driver's log from byte %d: %w", offset, err)
	}
	return limited{io.LimitReader(r, s.bytes-max(offset, s.missing)), r}, nil
}

type limited struct {
	io.Reader
	io.Closer
}

func emptyLog(context.Context, int, int64) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}

// Forget removes the record of an ended cluster.
func (l *Launcher) Forget(ctx context.Context, id launcher.ID) error {
	c, err := l.kube(ctx)
	if err != nil {
		return err
	}
	if job, err := c.job(ctx, string(id)); err != nil || job != nil {
		if err != nil {
			return err
		}
		return notEnded(string(id))
	}
	record, err := c.job(ctx, recordName(string(id)))
	if err != nil || record == nil || record.Labels[labelManagedBy] != managedBy {
		return err
	}
	if err := c.deleteJob(ctx, record.Name, record.UID); err != nil {
		return err
	}
	return c.awaitGone(ctx, record.Name)
}
