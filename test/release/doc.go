// Package release tests what a release consists of: the files that goreleaser makes, with the packages installed, and `go install`.
package release
