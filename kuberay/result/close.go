package result

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Close writes the result in place of a keeper that cannot, and ends the record's pod. A record that its queue has never admitted is deleted: no deadline ends it.
func Close(ctx context.Context, c *api.Client, name string, end launcher.End, why error) error {
	record, err := c.Record(ctx, name)
	if record == nil || err != nil {
		return err
	}
	if ptr.Deref(record.Spec.Suspend, false) {
		return c.DeleteJob(ctx, record.Name, record.UID)
	}
	message := cmp.Or(end.Message, "ended by the user")
	if why != nil {
		message += " (" + why.Error() + ")"
	}
	st := &runstate.State{Name: name, Launcher: "kuberay", Attempt: 1}
	runstate.Conclude(st, runstate.Verdict{Cause: end.Cause, Message: message, At: time.Now().UTC()})
	text, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	err = c.PatchJob(ctx, objects.RecordName(name), map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{objects.AnnotationResult: string(text)}},
		"spec":     map[string]any{"activeDeadlineSeconds": 1},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return api.Explain(err, "patch", "jobs.batch", c)
}
