// Package pack makes the zip packages that Ray unpacks on the nodes as a job's working_dir or py_modules.
//
// A package is named by its content: the same files give the same URI on every machine, so that a cluster which has it needs no
// upload. What is left out follows Ray: .gitignore and .rayignore in every directory, and Options.Excludes.
package pack

import (
	"context"
	"log/slog"
)

// Options shapes a package. The zero value is good.
type Options struct {
	// Excludes are patterns in .gitignore syntax, relative to the directory.
	Excludes []string
	// NoGitignore makes .gitignore files count for nothing (.rayignore files still do).
	NoGitignore bool
	// CacheDir is where packages and the memory of unchanged directories are kept. Empty: "rayctl/packages" in the user's cache directory.
	CacheDir string
	// MaxSize is the largest package allowed, in bytes. 0: Ray's limit, 500 MiB. The error names the largest files.
	MaxSize int64
	// Progress, if given, is called now and then, from one goroutine at a time, never after return.
	Progress func(Progress)
	// Logger gets a warning for each file that vanished or changed while it was read. Nil: nothing is logged.
	Logger *slog.Logger
}

// Progress is how far packing has come.
type Progress struct {
	// Files and Bytes are packed so far, TotalFiles and TotalBytes (before compression) are to be.
	Files, TotalFiles int
	Bytes, TotalBytes int64
}

// Package is a finished package.
type Package struct {
	// URI is "gcs://_ray_pkg_HASH.zip", to be given to Ray as working_dir or one of py_modules.
	URI string
	// Path is the zip file in the cache. It stays at least a day.
	Path string
	// Size is the zip's size in bytes.
	Size int64
	// Files and Bytes are what it holds, before compression.
	Files int
	Bytes int64
	// Reused is true if nothing had to be read: the directory is unchanged since it was last packed.
	Reused bool
}

// WorkingDir packs a directory for Ray's working_dir.
func WorkingDir(ctx context.Context, dir string, opts Options) (*Package, error) { panic("later") }

// Module packs a Python package (a directory) or module (a .py file) for Ray's py_modules: the zip holds it under its own name.
func Module(ctx context.Context, path string, opts Options) (*Package, error) { panic("later") }

// IsRemote reports whether a working directory or module is a URI that Ray's nodes fetch themselves (s3://, gs://, https://, gcs://, ...),
// to be passed on as it is.
func IsRemote(path string) bool { panic("later") }
