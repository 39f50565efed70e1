package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// AnyJob reads a Job, whoever made it; nil if there is none.
func (c *Client) AnyJob(ctx context.Context, name string) (*batchv1.Job, error) {
	job, err := c.Core.BatchV1().Jobs(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return job, Explain(err, "get", "jobs.batch", c)
}

// Job reads the keeper's Job of a cluster; nil if there is none, or if the Job of that name is another one: x-record may be the record of cluster x, or the keeper's
// Job of a cluster named x-record.
func (c *Client) Job(ctx context.Context, name string) (*batchv1.Job, error) {
	job, err := c.AnyJob(ctx, name)
	if job != nil && !IsOurs(job, objects.RoleKeeper, name) {
		job = nil
	}
	return job, err
}

// Record reads the record of a cluster; nil if there is none.
func (c *Client) Record(ctx context.Context, name string) (*batchv1.Job, error) {
	record, err := c.AnyJob(ctx, objects.RecordName(name))
	if record != nil && !IsOurs(record, objects.RoleRecord, name) {
		record = nil
	}
	return record, err
}

// IsOurs reports whether rayctl made the Job with this role (keeper or record) for the cluster of this name.
func IsOurs(job *batchv1.Job, role, name string) bool {
	return job.Labels[objects.LabelManagedBy] == objects.ManagedBy && job.Labels[objects.LabelRole] == role && job.Labels[objects.LabelName] == name
}

// Taken is the error of a launch under a name that another Job has.
func Taken(job *batchv1.Job) error {
	if job.Labels[objects.LabelManagedBy] != objects.ManagedBy {
		return foreign("Job", job.Name)
	}
	return launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "choose another name", "the Job %s is the %s of the cluster %s", job.Name, job.Labels[objects.LabelRole], job.Labels[objects.LabelName])
}

// Unsuspend lets the keeper's pod start.
func (c *Client) Unsuspend(ctx context.Context, name string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		return c.PatchJob(ctx, name, map[string]any{"spec": map[string]any{"suspend": false}})
	})
	return Explain(err, "patch", "jobs.batch", c)
}

// PatchJob changes a Job by a merge patch. It returns Kubernetes' error unchanged.
func (c *Client) PatchJob(ctx context.Context, name string, change any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode a change of job %s: %w", name, err)
	}
	_, err = c.Core.BatchV1().Jobs(c.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: objects.ManagedBy})
	return err
}

// DeleteJob deletes a Job with its pods. It is no error if the Job is deleted already, or if another one has its name by now.
func (c *Client) DeleteJob(ctx context.Context, name string, uid types.UID) error {
	foreground := metav1.DeletePropagationForeground
	o := metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &uid}}
	err := c.Core.BatchV1().Jobs(c.Namespace).Delete(ctx, name, o)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return Explain(err, "delete", "jobs.batch", c)
}

// DeleteLaunch deletes a keeper's Job, and with it the cluster. It also deletes the record, if the record belongs to that Job.
func (c *Client) DeleteLaunch(ctx context.Context, name string, uid types.UID) error {
	err := c.DeleteJob(ctx, name, uid)
	record, recordErr := c.Record(ctx, name)
	if record != nil && record.Annotations[objects.AnnotationKeeper] == string(uid) {
		recordErr = c.DeleteJob(ctx, record.Name, record.UID)
	}
	return errors.Join(err, recordErr)
}

// PodsOf lists a Job's pods.
func (c *Client) PodsOf(ctx context.Context, job *batchv1.Job) ([]*corev1.Pod, error) {
	list, err := c.Core.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name})
	if err != nil {
		return nil, Explain(err, "list", "pods", c)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}
