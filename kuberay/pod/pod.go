// Package pod has what the pods of a cluster run beside Ray: shell scripts, which a launch puts into the cluster's Secret.
package pod

import "embed"

//go:embed *.sh
var files embed.FS

// File is the content of one of them.
func File(name string) []byte {
	content, err := files.ReadFile(name)
	if err != nil {
		panic("kuberay: embedded files cannot be read: " + err.Error()) // impossible: they are part of the binary
	}
	return content
}
