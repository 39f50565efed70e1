// Package release tests what a release consists of: the packages of .goreleaser.yaml, installed, and `go install`.
package release
