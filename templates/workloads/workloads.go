// Package workloads holds what `rayctl init` writes: for each kind of work a cluster file and a small script that run as they are, and for CI systems a file that runs them.
package workloads

import (
	"bytes"
	"embed"
	"fmt"
	"path"

	kyaml "sigs.k8s.io/yaml"
)

//go:embed all:basic all:github all:gitlab all:grpo all:mpi all:serve all:torchrun all:train
var files embed.FS

// Workload is one template.
type Workload struct {
	Name  string
	About string
}

// places are the folders of files that must not be beside the cluster file.
var places = map[string]string{"github": ".github/workflows"}

// List is all templates, the default first.
func List() []Workload {
	return []Workload{
		{"basic", "tasks on two workers"},
		{"train", "data-parallel training with Ray Train, checkpoints and resume"},
		{"torchrun", "torchrun on every node"},
		{"mpi", "mpirun over all nodes"},
		{"grpo", "reinforcement learning: rollouts and a learner in groups of their own"},
		{"serve", "an HTTP application on Ray Serve"},
		{"github", "a GitHub workflow that runs the job of rayctl.yaml"},
		{"gitlab", "the same in GitLab CI"},
	}
}

// File is one file of a template. Its name may have folders.
type File struct {
	Name    string
	Content []byte
}

// Files are the files of a template, whose clusters have the name project.
func Files(name, project string) ([]File, error) {
	text, err := kyaml.Marshal(project) // in quotes where YAML would read a number, null or no
	if err != nil {
		return nil, fmt.Errorf("writing the name %s: %w", project, err)
	}
	entries, err := files.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("reading template %s: %w", name, err)
	}
	var out []File
	for _, e := range entries {
		data, err := files.ReadFile(path.Join(name, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading template %s: %w", name, err)
		}
		data = bytes.Replace(data, []byte("\nname: "+name+"\n"), append([]byte("\nname: "), text...), 1)
		out = append(out, File{path.Join(places[name], e.Name()), data})
	}
	return out, nil
}
