package api

import (
	"regexp"
	"slices"
	"strings"
)

// What policies write when they refuse an object:
//
//	Kubernetes, ValidatingAdmissionPolicy 'NAME' with binding ... denied request: (apiserver's plugin/policy/validating, 1.34)
//	Kyverno's ClusterPolicies: a YAML map of policies and rules (pkg/webhooks/utils/block.go, 1.10 to 1.16)
//	Kyverno's ValidatingPolicies (1.14 and later): Policy NAME failed: MESSAGE
//	Gatekeeper: [CONSTRAINT] MESSAGE, one a line (pkg/webhook/policy.go, 3.14)
var (
	vapName        = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'`)
	blockedObject  = regexp.MustCompile(`resource \S+ was blocked`)
	blockedBy      = regexp.MustCompile(`was blocked due to the following policies\s+`)
	kyvernoPolicy  = regexp.MustCompile(`(?m)^([a-zA-Z0-9][\w.-]*):\s*$`)
	kyvernoCEL     = regexp.MustCompile(`\bPolicy (\S+) (?:failed|error):\s*`)
	gatekeeperName = regexp.MustCompile(`(?m)(?:^|denied the request: )\[([\w.-]+)\] `)
	spaces         = regexp.MustCompile(`\s+`)
	blankLine      = regexp.MustCompile(`\n\s*\n`)
)

// The API server's words around a webhook's (apiserver's pkg/admission/plugin/webhook/errors, 1.34).
const webhookBegins, webhookDenies = "admission webhook ", "denied the request"

// Denial is a refusal by a policy or a webhook.
type Denial struct {
	Text     string   // without what those who asked for the object have put before
	Policies []string // their names; empty where the webhook gives none
	Said     string   // the policies' own words, without names of policies and objects
	// Webhook: a program outside of Kubernetes has refused.
	Webhook bool
	// Asks: it has asked another program first, such as a registry, which may answer differently later.
	Asks bool
}

// DenialOf reads a refusal's text; nil: neither a policy nor a webhook has refused.
func DenialOf(text string) *Denial {
	if m := vapName.FindStringSubmatch(text); m != nil {
		_, said, found := strings.Cut(text, "denied request: ")
		if !found {
			said = text
		}
		return &Denial{Text: text, Policies: m[1:], Said: said}
	}
	at, end := strings.Index(text, webhookBegins), strings.Index(text, webhookDenies)
	if at < 0 || end < at {
		return nil
	}
	d := &Denial{Text: text[at:], Said: strings.TrimLeft(text[end+len(webhookDenies):], ": "), Webhook: true}
	list := blockedBy.FindStringIndex(d.Said)
	switch {
	case list != nil:
		d.Said = d.Said[list[1]:]
		d.Text = blockedObject.ReplaceAllLiteralString(d.Text, "it was blocked") // a pod's name is another one at each try
		d.Policies, d.Asks = names(kyvernoPolicy, d.Said), strings.Contains(d.Said, "failed to verify image") || strings.Contains(d.Said, "failed to load context")
		d.Said = kyvernoPolicy.ReplaceAllString(d.Said, "")
	case kyvernoCEL.MatchString(d.Said):
		d.Policies, d.Asks = names(kyvernoCEL, d.Said), strings.Contains(d.Said, " error: ")
		d.Said = kyvernoCEL.ReplaceAllString(d.Said, "")
	default:
		d.Policies = names(gatekeeperName, "denied the request: "+d.Said)
		for _, name := range d.Policies {
			d.Said = strings.ReplaceAll(d.Said, "["+name+"] ", "")
		}
	}
	return d
}

func names(find *regexp.Regexp, text string) (out []string) {
	for _, m := range find.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(out, m[1]) {
			out = append(out, m[1])
		}
	}
	return out
}

// Exception is whom to ask, as the end of a hint.
func (d *Denial) Exception() string {
	switch len(d.Policies) {
	case 0:
		return "or ask the administrators of the webhook"
	case 1:
		return "or ask for an exception of policy " + d.Policies[0]
	default:
		return "or ask for exceptions of policies " + strings.Join(d.Policies, " and ")
	}
}

// Keys guesses the keys of the cluster file from the words of the policy's own sentence.
func (d *Denial) Keys() (keys []string) {
	text := strings.ToLower(d.Said)
	for _, k := range []struct{ word, key string }{
		{"image", "image"}, {"registry", "image"}, {"label", "labels"}, {"annotation", "kuberay.annotations"}, {"serviceaccountname", "kuberay.serviceAccountName"},
		{"service account", "kuberay.serviceAccountName"}, {"priorit", "kuberay.priorityClassName"}, {"toleration", "kuberay.tolerations"},
		{"nodeselector", "kuberay.nodeSelector"}, {"node selector", "kuberay.nodeSelector"}, {"memory", "memory"}, {"cpu", "cpus"}, {"gpu", "gpus"},
		{"hostpath", "mounts"}, {"volume", "mounts"}, {"enableintreeautoscaling", "workers[].minReplicas"},
	} {
		if strings.Contains(text, k.word) && !slices.Contains(keys, k.key) {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// OneLine is a refusal's text on one line: Kyverno's has several, with empty ones between.
func OneLine(text string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(blankLine.ReplaceAllString(text, "\n"), " "))
}

// hintFor is the next step where one of rayctl's own objects is refused: which keys reach it, see package objects.
func (d *Denial) hintFor(resource string) string {
	reach := map[string][]string{
		"rayclusters.ray.io": {"labels", "kuberay.annotations", "image", "memory", "cpus", "gpus", "kuberay.serviceAccountName", "kuberay.priorityClassName", "kuberay.tolerations", "kuberay.nodeSelector", "mounts", "workers[].minReplicas"},
		"jobs.batch":         {"labels", "kuberay.annotations", "kuberay.priorityClassName", "kuberay.tolerations", "kuberay.nodeSelector"},
	}[resource]
	if reach == nil {
		reach = []string{"labels"}
	}
	var keys []string
	for _, k := range d.Keys() {
		switch {
		case resource == "jobs.batch" && k == "image":
			keys = append(keys, "kuberay.keeperImage")
		case slices.Contains(reach, k):
			keys = append(keys, k)
		}
	}
	switch {
	case resource == "jobs.batch":
		keys = append(keys, "kuberay.keeperPatch")
	case resource == "rayclusters.ray.io":
		keys = append(keys, "kuberay.patch")
	case len(keys) == 0:
		keys = append(keys, "labels")
	}
	return "change " + strings.Join(keys, " or ") + ", " + d.Exception()
}
