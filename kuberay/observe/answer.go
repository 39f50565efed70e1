package observe

import (
	"slices"
	"strings"
)

// Answer is the next step: which keys of the cluster file to change, or what else.
func (r RefusedPod) Answer(keys []string, or string) string {
	switch r.File {
	case "":
		return strings.TrimPrefix(or, "or ") + ", or set kuberay.keeper: none"
	case byManifest:
		return strings.TrimSuffix("change the pods of "+r.Part+" in kuberay.rayCluster, "+or, ", ")
	}
	var whole []string
	for _, k := range keys {
		switch {
		case k == "replicas":
			k = WorkersOf + "." + k
		case k == ownLimits, !strings.Contains(k, ".") && !slices.Contains(ofCluster, k):
			k = r.File + "." + k
		}
		if !slices.Contains(whole, k) {
			whole = append(whole, k)
		}
	}
	out := "change " + strings.Join(whole, " or ")
	if r.File == WorkersOf {
		out += " of " + r.Part
	}
	return strings.TrimSuffix(out+", "+or, ", ")
}

// Keys of the cluster file that describe pods.
const (
	WorkersOf  = "workers[]"
	byManifest = "kuberay.rayCluster"
	ownLimits  = "kuberay.limits" // of a group
)

// ofCluster are keys that belong to the whole file, not to a group.
var ofCluster = []string{"mounts", "labels"}

// KeysFor are the keys of a group that decide about resources a sentence names. CPU has no limit unless kuberay.limits gives one.
func KeysFor(text string, limits bool) (keys []string) {
	for _, k := range []struct{ word, key string }{{"memory", "memory"}, {"cpu", "cpus"}, {"gpu", "gpus"}, {"pods", "replicas"}} {
		if strings.Contains(text, k.word) && (!limits || k.key != "cpus") {
			keys = append(keys, k.key)
		}
	}
	if limits && strings.Contains(text, "cpu") || len(keys) == 0 {
		keys = append(keys, ownLimits)
	}
	return keys
}

// keysIn guesses the key from the words of a policy's own sentence; `patch` can change anything.
func keysIn(text string) (keys []string) {
	if _, said, found := strings.Cut(text, "denied request: "); found {
		text = said // without the policy's name
	}
	text = strings.ToLower(text)
	for _, k := range []struct{ word, key string }{
		{"image", "image"}, {"registry", "image"}, {"label", "labels"}, {"annotation", "kuberay.annotations"}, {"serviceaccount", "kuberay.serviceAccountName"},
		{"service account", "kuberay.serviceAccountName"}, {"priorit", "kuberay.priorityClassName"}, {"toleration", "kuberay.tolerations"},
		{"nodeselector", "kuberay.nodeSelector"}, {"node selector", "kuberay.nodeSelector"}, {"memory", "memory"}, {"cpu", "cpus"}, {"gpu", "gpus"},
	} {
		if strings.Contains(text, k.word) && !slices.Contains(keys, k.key) {
			keys = append(keys, k.key)
		}
	}
	return append(keys, "patch")
}
