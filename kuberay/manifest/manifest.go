// Package manifest reads files that are written for KubeRay, and describes what is in them in the keys of a cluster file: a RayCluster is taken as it is, a RayJob
// is its cluster and its job.
package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Kinds that a file may hold.
const (
	KindRayCluster = "RayCluster"
	KindRayJob     = "RayJob"
)

// Manifest is a file with a RayCluster or a RayJob in it.
type Manifest struct {
	// File is the file's name as the user gave it.
	File string
	// Kind is RayCluster or RayJob.
	Kind string
	// Name is the object's metadata.name, or what its generateName begins with, or "".
	Name string
	// Keys are the file's content as keys of a cluster file.
	Keys []Key
	// Notes are sentences for the user about what is in the file and has no effect.
	Notes []string

	data []byte // of the file
}

// Key is a key of the cluster file with its value: text for keys with a single value, JSON for others.
type Key struct{ Path, Value string }

// object is one document of a file.
type object struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	text            []byte            // as JSON
	index           int               // among the documents that are not empty
}

// Detect returns nil if the file is no Kubernetes manifest, also if it is no YAML: then the cluster file's parser reports the error.
func Detect(name string, data []byte) (*Manifest, error) {
	objects, ok, err := split(name, data)
	if !ok || err != nil {
		return nil, err
	}
	var main *object
	var rest []object
	for i, o := range objects {
		switch {
		case !isRay(o):
			rest = append(rest, o)
		case main != nil:
			return nil, &spec.Error{File: name, Msg: fmt.Sprintf("holds a %s and a %s", main.Kind, o.Kind), Hint: "give one cluster at a time"}
		default:
			main = &objects[i]
		}
	}
	if main == nil {
		return nil, notOurs(name, rest)
	}
	m := &Manifest{File: name, data: data, Kind: main.Kind, Name: cmp.Or(main.Metadata.Name, strings.TrimRight(main.Metadata.GenerateName, "-"))}
	if err := m.read(main, rest); err != nil {
		return nil, err
	}
	return m, nil
}

// split reads the documents of a file; false if it is no list of objects.
func split(file string, data []byte) ([]object, bool, error) {
	var out []object
	dec := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, true, nil
		}
		if err != nil {
			return nil, false, nil //nolint:nilerr // the cluster file's parser reports it
		}
		var o object
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		// A cluster file has no kind; its other keys are validated elsewhere.
		if json.Unmarshal(raw, &o.TypeMeta) != nil || o.Kind == "" {
			return nil, false, nil
		}
		var meta struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		o.text, o.index = raw, len(out)
		if err := json.Unmarshal(raw, &meta); err != nil {
			if o.APIVersion == "" { // a cluster file with a key too many
				return nil, false, nil
			}
			return nil, false, wrongValue(file, data, o, &meta, err)
		}
		o.Metadata = meta.Metadata
		out = append(out, o)
	}
}

func isRay(o object) bool {
	return strings.HasPrefix(o.APIVersion, rayv1.GroupVersion.Group+"/") && (o.Kind == KindRayCluster || o.Kind == KindRayJob)
}

func notOurs(name string, objects []object) error {
	if len(objects) == 0 {
		return nil
	}
	for _, o := range objects {
		if o.Kind == KindRayCluster || o.Kind == KindRayJob {
			return &spec.Error{File: name, Msg: fmt.Sprintf("is a %s with apiVersion %q", o.Kind, o.APIVersion), Hint: "write apiVersion: " + rayv1.GroupVersion.String()}
		}
	}
	return &spec.Error{File: name, Msg: fmt.Sprintf("is a Kubernetes %s, which rayctl does not launch", objects[0].Kind),
		Hint: "give a cluster file, a RayCluster or a RayJob; Serve applications go to `rayctl serve apply`"}
}

// read fills in Keys and Notes.
func (m *Manifest) read(main *object, rest []object) error {
	if main.APIVersion != rayv1.GroupVersion.String() {
		return m.errorf("write apiVersion: "+rayv1.GroupVersion.String(), "is a %s of %s, which KubeRay no longer has", main.Kind, main.APIVersion)
	}
	if m.Name != "" {
		m.set("name", m.Name)
	}
	if ns := main.Metadata.Namespace; ns != "" {
		m.set("kuberay.namespace", ns)
	}
	m.setMetadata(main.Metadata)
	if err := m.readMain(main); err != nil {
		return err
	}
	return m.readRest(rest)
}

func (m *Manifest) readMain(main *object) error {
	if main.Kind == KindRayJob {
		var job rayv1.RayJob
		if err := m.strict(*main, &job, "spec", "rayClusterSpec"); err != nil {
			return err
		}
		return m.readJob(main, &job.Spec)
	}
	if err := m.strict(*main, &rayv1.RayCluster{}, "spec"); err != nil {
		return err
	}
	return m.setCluster(main.text, "spec")
}

// setCluster takes the cluster's spec as it stands in the file, without what decoding and encoding would add.
func (m *Manifest) setCluster(text []byte, path ...string) error {
	for _, key := range path {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			return m.errorf("", "cannot be read: %v", err)
		}
		text = fields[key]
	}
	if len(text) == 0 {
		return m.errorf("a cluster needs at least headGroupSpec", "has no %s", strings.Join(path, "."))
	}
	m.set("kuberay.rayCluster", m.unsuspended(text))
	return nil
}

// unsuspended is a cluster's spec without suspend: true, with which KubeRay would make nothing. What holds RayClusters in a queue sets that itself.
func (m *Manifest) unsuspended(spec []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(spec, &fields) != nil || string(fields["suspend"]) != "true" {
		return string(spec)
	}
	delete(fields, "suspend")
	text, err := json.Marshal(fields)
	if err != nil {
		panic("manifest: " + err.Error()) // impossible: it was decoded
	}
	m.note("suspend: true of the RayCluster is left out: rayctl starts the cluster, and what holds RayClusters in a queue suspends it itself")
	return string(text)
}

// readRest takes ConfigMaps, which pods mount, and names what else is in the file.
func (m *Manifest) readRest(rest []object) error {
	maps := map[string]map[string]string{}
	var others []string
	for _, o := range rest {
		var c corev1.ConfigMap
		if o.Kind == "ConfigMap" && o.APIVersion == "v1" {
			if err := m.strict(o, &c); err != nil {
				return err
			}
		}
		if c.Name == "" || len(c.BinaryData) > 0 {
			others = append(others, o.Kind+" "+o.Metadata.Name)
			continue
		}
		maps[c.Name] = c.Data
	}
	if len(maps) > 0 {
		text, err := json.Marshal(maps)
		if err != nil {
			return m.errorf("", "cannot be read: %v", err)
		}
		m.set("kuberay.configMaps", string(text))
	}
	if len(others) > 0 {
		m.note("rayctl does not create the other objects of the file (%s): those that the cluster needs must exist", strings.Join(others, ", "))
	}
	return nil
}

// strict decodes what rayctl must understand, as the API server does; a field that it does not know must not get lost. Those of the RayCluster, below inCluster,
// may be of a newer KubeRay: they are only noted, as objects.Adopt keeps them for the API server.
func (m *Manifest) strict(o object, into any, inCluster ...any) error {
	unknown, err := DecodeNewer(o.text, into)
	if err != nil {
		return wrongValue(m.File, m.data, o, reflect.New(reflect.TypeOf(into).Elem()).Interface(), err)
	}
	var names []string
	for _, path := range unknown {
		line := lineOf(m.data, o.index, path)
		if len(inCluster) == 0 || len(path) <= len(inCluster) || !slices.Equal(path[:len(inCluster)], inCluster) {
			return &spec.Error{File: m.File, Line: line, Path: shown(path), Msg: "is no field of " + o.Kind, Hint: compare}
		}
		names = append(names, fmt.Sprintf("%s (line %d)", shown(path), line))
	}
	if len(names) > 0 {
		m.note("%s: not in KubeRay 1.6, whose fields rayctl knows; Kubernetes gets it as it is, and refuses what its KubeRay does not have", strings.Join(names, ", "))
	}
	return nil
}

const compare = "compare it with KubeRay's reference of ray.io/v1"

func (m *Manifest) set(path, value string) { m.Keys = append(m.Keys, Key{path, value}) }

func (m *Manifest) setAll(path string, values map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		m.set(path+"."+k, values[k])
	}
}

func (m *Manifest) note(format string, args ...any) {
	m.Notes = append(m.Notes, m.File+": "+fmt.Sprintf(format, args...))
}

func (m *Manifest) errorf(hint, format string, args ...any) error {
	return &spec.Error{File: m.File, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// owners are those whose labels and annotations, with these names or below them, mean that an object is theirs: they would prune what rayctl makes, as it is not
// among their files. The last is of kubectl, Kustomize and Config Sync.
var owners = []string{"argocd.argoproj.io", "helm.sh", "meta.helm.sh", "fluxcd.io", "toolkit.fluxcd.io", "config.k8s.io"}

func isOwners(key string) bool {
	if key == "app.kubernetes.io/managed-by" || key == "app.kubernetes.io/instance" { // Helm's, and what Argo CD finds its objects by
		return true
	}
	domain, _, _ := strings.Cut(key, "/")
	return slices.ContainsFunc(owners, func(owner string) bool { return domain == owner || strings.HasSuffix(domain, "."+owner) })
}

// setMetadata takes the object's labels and annotations, without what others own it by, and without what `kubectl apply` notes for itself: the whole object.
func (m *Manifest) setMetadata(meta metav1.ObjectMeta) {
	var left []string
	take := func(path string, values map[string]string) {
		for _, k := range slices.Sorted(maps.Keys(values)) {
			switch {
			case isOwners(k):
				left = append(left, k)
			case k != corev1.LastAppliedConfigAnnotation:
				m.set(path+"."+k, values[k])
			}
		}
	}
	take("labels", meta.Labels)
	take("kuberay.annotations", meta.Annotations)
	if len(left) > 0 {
		slices.Sort(left)
		m.note("labels and annotations by which others own the file's object are left out: %s", strings.Join(slices.Compact(left), ", "))
	}
}
