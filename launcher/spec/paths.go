package spec

import (
	"os"
	"path/filepath"
	"strings"
)

// resolvePath makes a path of the client absolute, by the field's struct tag `path`:
//
//	client   a file or directory of the client: relative to dir, ~ is the home directory
//	program  the same if it has a slash or begins with a dot, but ~ is left alone (it may mean the nodes' home); a bare name is looked
//	         up on PATH where it runs
//	nodes    a path on the nodes: relative to dir too, but ~ is left alone
//
// A map with the tag runtimeEnv contains such paths of the client, see ClientFiles.
//
// URIs stay as they are.
func resolvePath(p, dir, tag string) string {
	if tag == "" || p == "" || IsURI(p) {
		return p
	}
	if tag == "program" && (!strings.Contains(p, "/") && !strings.HasPrefix(p, ".") || strings.HasPrefix(p, "~")) {
		return p
	}
	if tag != "nodes" {
		p = ExpandHome(p)
	} else if strings.HasPrefix(p, "~") {
		return p
	}
	if filepath.IsAbs(p) || dir == "" {
		return p
	}
	return filepath.Join(dir, p)
}

// ExpandHome replaces a leading ~ by this user's home directory.
func ExpandHome(p string) string {
	if p != "~" && !strings.HasPrefix(p, "~/") {
		return p
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return p
	}
	return filepath.Join(home, p[1:])
}

// IsURI reports whether a working directory or module is a remote URI that Ray fetches itself.
func IsURI(p string) bool {
	scheme, _, ok := strings.Cut(p, "://")
	return ok && scheme != "" && !strings.ContainsAny(scheme, "/ ")
}
