package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Manifest is a file with a RayCluster or RayJob in it, which package kuberay turns into typed objects.
type Manifest struct {
	// File is the file's name as the user gave it.
	File string
	// Kind is RayCluster or RayJob.
	Kind string
	// Name is the object's metadata.name, or "".
	Name string
	// Data is the whole file: the object and what stands beside it, such as the ConfigMap that many samples have.
	Data []byte
}

const rayGroup = "ray.io/"

// meta is what tells a manifest from a cluster file.
type meta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
}

// detectManifest returns nil if the file is no Kubernetes manifest, also if it is no YAML: then the cluster file's parser says what is wrong.
func detectManifest(name string, data []byte) (*Manifest, error) {
	var found *Manifest
	other := ""
	dec := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var m meta
		err := dec.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil
		}
		switch {
		case strings.HasPrefix(m.APIVersion, rayGroup) && (m.Kind == "RayCluster" || m.Kind == "RayJob"):
			if found != nil {
				return nil, &spec.Error{File: name, Msg: fmt.Sprintf("holds a %s and a %s", found.Kind, m.Kind), Hint: "give one cluster at a time"}
			}
			found = &Manifest{File: name, Kind: m.Kind, Name: m.Metadata.Name, Data: data}
		case m.Kind != "":
			other = m.Kind
		}
	}
	if found == nil && other != "" {
		return nil, &spec.Error{File: name, Msg: fmt.Sprintf("is a Kubernetes %s, which rayctl does not launch", other),
			Hint: "give a cluster file, a RayCluster or a RayJob; Serve applications go to `rayctl serve apply`"}
	}
	return found, nil
}
