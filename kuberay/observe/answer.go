package observe

import (
	"slices"
	"strings"
)

// Answer is the next step for the user: to change one of keys of the cluster file, or to do what or says.
func (r RefusedPod) Answer(keys []string, or string) string {
	switch r.File {
	case "":
		return r.helpersAnswer(keys, or)
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

// helpersAnswer is the Answer for the keeper's and the record's pod. The cluster file has few keys for these.
func (r RefusedPod) helpersAnswer(keys []string, or string) string {
	var whole []string
	for _, k := range keys {
		switch {
		case k == "replicas": // the file does not decide how many of these pods there are
			continue
		case k == "image":
			k = "kuberay.keeperImage"
		case !strings.HasPrefix(k, "kuberay.") || k == "kuberay.serviceAccountName" || k == ownLimits:
			k = "kuberay.keeperPatch"
		}
		if !slices.Contains(whole, k) {
			whole = append(whole, k)
		}
	}
	if len(whole) > 0 {
		or = "change " + strings.Join(whole, " or ") + ", " + or
	}
	return strings.TrimSuffix(strings.TrimPrefix(or, "or "), ", ") + ", or set kuberay.keeper: none"
}

// Keys of the cluster file that describe pods.
const (
	WorkersOf  = "workers[]"
	byManifest = "kuberay.rayCluster"
	ownLimits  = "kuberay.limits" // of a group
)

// ofCluster are keys that belong to the whole file, not to a group.
var ofCluster = []string{"mounts", "labels"}

// KeysFor returns the keys of a group that set the resources named in text. limits: text is about limits, and for CPU only kuberay.limits sets one.
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
