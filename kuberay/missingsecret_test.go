package kuberay_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
)

// TestMissingSecret: the reason of a pod that refers to a missing Secret names it; once the Secret exists the pod starts.
func TestMissingSecret(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("secretive", `echo "it is $WORD"`)
	s.Secrets = []spec.Secret{{Name: "WORD", SecretKeyRef: &spec.SecretKeyRef{Name: "theirs", Key: "word"}}}
	r := b.begin(t, b.l, s)
	r.until(t, "word of the Secret", func(st launcher.Status) bool {
		return st.Reason.Code == "CreateContainerConfigError" && strings.Contains(st.Reason.Message, `"theirs" not found`)
	})
	b.Create(t, b.namespace, `{apiVersion: v1, kind: Secret, metadata: {name: theirs}, stringData: {word: late}}`)
	r.wantEnd(t, "succeeded", 0, "it is late\n")
}
