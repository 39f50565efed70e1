package api

import (
	"slices"
	"strings"
	"testing"
)

// TestDenials has the texts of policies as they are seen in the field, see policies.go for their sources.
func TestDenials(t *testing.T) {
	const denied = `admission webhook "%s" denied the request: `
	from := func(webhook, text string) string { return strings.Replace(denied, "%s", webhook, 1) + text }
	for _, c := range []struct {
		name, text string
		policies   []string
		keys       []string
		asks       bool
	}{
		{"Kyverno", from("validate.kyverno.svc-fail", "\n\nresource Pod/cpu-image/gpu-head was blocked due to the following policies \n\nrequire-labels:\n  check-team: 'validation error: label ''team'' is\n    required. rule check-team failed at path /metadata/labels/team/'\n"),
			[]string{"require-labels"}, []string{"labels"}, false},
		{"several", from("validate.kyverno.svc-fail", "\n\nresource Job/n/c was blocked due to the following policies \n\ndisallow-latest-tag:\n  autogen-tag: 'validation error: an image tag is required'\nlimits:\n  autogen-memory: 'validation error: set limits.memory'\n"),
			[]string{"disallow-latest-tag", "limits"}, []string{"image", "memory"}, false},
		{"a registry is asked", from("mutate.kyverno.svc-fail", "\n\nresource Pod/n/c was blocked due to the following policies\n\nsigned:\n  signed: 'failed to verify image registry.example.com/ray:1: no signatures found'\n"),
			[]string{"signed"}, []string{"image"}, true},
		{"Kyverno's CEL", from("vpol.validate.kyverno.svc-fail", "Policy require-team-label failed: Every Pod must carry a non-empty team label."), []string{"require-team-label"}, []string{"labels"}, false},
		{"Gatekeeper", from("validation.gatekeeper.sh", "[all-must-have-owner] you must provide annotation: owner\n[few-cpus] container <ray-head> has no cpu limit"),
			[]string{"all-must-have-owner", "few-cpus"}, []string{"kuberay.annotations", "cpus"}, false},
		{"another webhook", from("pods.example.com", "tolerations [a] are not for you"), nil, []string{"kuberay.tolerations"}, false},
		{"Kubernetes", `ValidatingAdmissionPolicy 'image-names' with binding 'image-names' denied request: say whose it is`, []string{"image-names"}, nil, false},
	} {
		d := DenialOf(c.text)
		if d == nil || !slices.Equal(d.Policies, c.policies) || !slices.Equal(d.Keys(), c.keys) || d.Asks != c.asks {
			t.Errorf("%s: %+v, keys %q", c.name, d, d.Keys())
		}
	}
	for _, text := range []string{`pods "x" is forbidden: exceeded quota`, `failed calling webhook "validate.kyverno.svc-fail": no endpoints available`} {
		if d := DenialOf(text); d != nil {
			t.Errorf("%s: %+v", text, d)
		}
	}
	if got := OneLine("denied: \n\nresource X \n\na:\n  b: 'c\n    d'\n"); got != "denied: resource X a: b: 'c d'" {
		t.Errorf("%q", got)
	}
}
