package api

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// ReadToken reads Ray's token where the RayCluster names its Secret itself: the keeper needs it.
func (c *Client) ReadToken(ctx context.Context, p *objects.Plan) error {
	if p.Adopted == nil {
		return nil
	}
	token, err := c.foreignToken(ctx, p.Adopted.Token)
	if token != "" {
		p.Token = token
	}
	return err
}

// foreignToken is the token of a cluster whose Secret is not ours; "" if it has none.
func (c *Client) foreignToken(ctx context.Context, source objects.TokenSource) (string, error) {
	if source.Secret == "" {
		return source.Value, nil
	}
	secret, err := c.Core.CoreV1().Secrets(c.Namespace).Get(ctx, source.Secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", launcher.Fail(runstate.CodeSpec, err, "create it first", "the Secret %s, which holds the token of the RayCluster, does not exist in namespace %s", source.Secret, c.Namespace)
	}
	if err != nil {
		return "", Explain(err, "get", "secrets", c)
	}
	return string(secret.Data[source.Key]), nil
}

// OthersToken is the token of a cluster that rayctl did not make; "" if it has none.
func (c *Client) OthersToken(ctx context.Context, id launcher.ID) (string, error) {
	rc, err := c.RayCluster(ctx, id)
	if err != nil {
		return "", err
	}
	source, err := objects.TokenOf(&rc.Spec)
	if err != nil {
		return "", launcher.Fail(runstate.CodeUnreachable, err, "`rayctl port-forward "+string(id)+" 8265`, and --address with your own token in RAY_AUTH_TOKEN, reach it",
			"the RayCluster %s takes Kubernetes' own tokens, which rayctl does not send", id)
	}
	if source.Ours && rc.Spec.AuthOptions != nil {
		source.Secret, source.Key = string(id), objects.TokenKey // KubeRay made it
	}
	if name := objects.SecretName(string(id)); source.Secret == name && rc.Labels[objects.LabelManagedBy] == objects.ManagedBy { // for a moment after the keeper's Job
		return "", launcher.Fail(runstate.CodeUnreachable, launcher.ErrNotReady, "repeat the command when `rayctl wait "+string(id)+"` has returned", "%s is ending: its Secret %s is deleted", id, name)
	}
	return c.foreignToken(ctx, source)
}
