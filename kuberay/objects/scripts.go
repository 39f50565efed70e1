package objects

import "embed"

// scripts are what the pods of a cluster run beside Ray. A launch puts them into the cluster's Secret.
//
//go:embed *.sh
var scripts embed.FS

// scriptFile is the content of one of them.
func scriptFile(name string) []byte {
	content, err := scripts.ReadFile(name)
	if err != nil {
		panic("kuberay: embedded files cannot be read: " + err.Error()) // impossible: they are part of the binary
	}
	return content
}
