package api

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/spec"
)

// NoteCommit puts the commit into the Secret, from where other pods and other clients read it.
func (c *Client) NoteCommit(ctx context.Context, name string, document keeper.Commit) error {
	text, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("encode the commit: %w", err)
	}
	return Patiently(ctx, func() error { return c.Note(ctx, name, map[string]string{objects.CommitKey: string(text)}) })
}

// MarkCommitted notes the commit on the record. A record that somebody has deleted needs none.
func (c *Client) MarkCommitted(ctx context.Context, record string) error {
	mark := map[string]any{"metadata": map[string]any{"annotations": map[string]string{objects.AnnotationCommitted: "true"}}}
	err := Patiently(ctx, func() error { return c.PatchJob(ctx, record, mark) })
	if apierrors.IsNotFound(err) {
		return nil
	}
	return Explain(err, "patch", "jobs.batch", c)
}

// NotedCommit is the commit of a cluster; nil if there is none (yet).
func (c *Client) NotedCommit(ctx context.Context, name string) ([]byte, error) {
	secret, err := c.Core.CoreV1().Secrets(c.Namespace).Get(ctx, objects.SecretName(name), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, Explain(err, "get", "secrets", c)
	}
	return secret.Data[objects.CommitKey], nil
}

// Difference describes for the user how the plan differs from what was launched.
func (c *Client) Difference(ctx context.Context, p *objects.Plan) string {
	was, err := c.Launched(ctx, p.Spec.Name)
	if err != nil {
		return "what differs cannot be read: " + cause(err)
	}
	return spec.OwnAndYours(spec.Diff(was, p.Spec))
}

// Launched is the cluster file of a living cluster.
func (c *Client) Launched(ctx context.Context, name string) (*spec.ClusterSpec, error) {
	secret, err := c.Core.CoreV1().Secrets(c.Namespace).Get(ctx, objects.SecretName(name), metav1.GetOptions{})
	if err != nil {
		return nil, Explain(err, "get", "secrets", c)
	}
	s := &spec.ClusterSpec{}
	if err := json.Unmarshal(secret.Data[objects.SpecKey], s); err != nil {
		return nil, fmt.Errorf("read what was launched as %s: %w", name, err)
	}
	return s, nil
}

// LaunchedGroups are the groups of a living cluster, with the bounds of its launch, whatever files it has taken since.
func (c *Client) LaunchedGroups(ctx context.Context, name string) ([]spec.NodeGroup, error) {
	secret, err := c.Core.CoreV1().Secrets(c.Namespace).Get(ctx, objects.SecretName(name), metav1.GetOptions{})
	if err != nil {
		return nil, Explain(err, "get", "secrets", c)
	}
	s, order := &spec.ClusterSpec{}, &keeper.Orders{}
	if err := json.Unmarshal(secret.Data[objects.SpecKey], s); err != nil {
		return nil, fmt.Errorf("read what was launched as %s: %w", name, err)
	}
	if err := json.Unmarshal(secret.Data[objects.OrdersKey], order); err != nil {
		return nil, fmt.Errorf("read the orders of %s: %w", name, err)
	}
	groups := s.NodeGroups()
	for i := range groups {
		for _, o := range order.Groups {
			if o.Name == groups[i].Name {
				groups[i].Min, groups[i].Max = o.Count, max(o.Count, o.Max)
			}
		}
	}
	return groups, nil
}

// NoteSpec puts a changed cluster file into the Secret, and what of it is in the keeper's orders.
func (c *Client) NoteSpec(ctx context.Context, s *spec.ClusterSpec) error {
	secret, err := c.Core.CoreV1().Secrets(c.Namespace).Get(ctx, objects.SecretName(s.Name), metav1.GetOptions{})
	if err != nil {
		return Explain(err, "get", "secrets", c)
	}
	order := &keeper.Orders{}
	if err := json.Unmarshal(secret.Data[objects.OrdersKey], order); err != nil {
		return fmt.Errorf("read the orders of %s: %w", s.Name, err)
	}
	change := orders.Change(s)
	order.SpecHash, order.Lifetime.Max, order.Lifetime.Idle, order.Lifetime.IdleGPU = change.SpecHash, change.Lifetime.Max, change.Lifetime.Idle, change.Lifetime.IdleGPU
	texts := map[string]string{}
	for key, document := range map[string]any{objects.OrdersKey: order, objects.SpecKey: s} {
		text, err := json.Marshal(document)
		if err != nil {
			return fmt.Errorf("encode %s: %w", key, err)
		}
		texts[key] = string(text)
	}
	return c.Note(ctx, s.Name, texts)
}

// Note puts texts into the cluster's Secret.
func (c *Client) Note(ctx context.Context, name string, texts map[string]string) error {
	patch, err := json.Marshal(map[string]any{"stringData": texts})
	if err != nil {
		return fmt.Errorf("encode a note: %w", err)
	}
	_, err = c.Core.CoreV1().Secrets(c.Namespace).Patch(ctx, objects.SecretName(name), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: objects.ManagedBy})
	return Explain(err, "patch", "secrets", c)
}
