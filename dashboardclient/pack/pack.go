// Package pack makes the zip packages that Ray unpacks on the nodes as a job's working_dir or py_modules.
//
// A package is named by its content: the same files give the same URI on every machine, so that a cluster which has it needs no upload.
//
// In a git work tree git says what is packed: the tracked files, and those that it would add. So the .gitignore files of the directories above, .git/info/exclude
// and core.excludesFile count, a tracked file is packed although a pattern matches it, and an empty directory is not. What is deleted or outside of a sparse
// checkout is not there to be packed. A submodule, another repository in the directory, and what a link leads to are listed by the repository that they
// are in. The repository of the directory counts, not the one of GIT_DIR.
//
// Where no work tree is, no git, or git refuses (safe.directory), our own matcher reads the .gitignore files in the directory, and its .git/info/exclude. The
// same holds where git ignores the directory itself.
//
// Options.Excludes, DefaultExcludes and the .rayignore files leave out more, as in Ray. Beyond Ray, their "!pattern" takes back what git ignores: a file, or a
// directory with all that is in it. Their patterns, and those of our own matcher, have the meaning of git 2.39, compared on generated trees (TestIgnoreIsGits:
// 2,000 of them, none differs). The matcher is our own because go-git's v5.19.3 differed from git in 299 of 1,000 such trees ("!data" brought back what is
// below, "!*/" everything in the directories). Like git it compares bytes, with case, on every system.
//
// Symbolic links are followed as in Ray, which cannot unpack them. Permissions are kept (Ray 2.9.3 and 2.40 ignore them when unpacking).
package pack

import (
	"archive/zip"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/dashboardclient"
)

// DefaultExcludes are excluded by Ray 2.60 from every working directory. Options.Excludes may include one again: "!venv".
var DefaultExcludes = []string{".git", ".venv", "venv", "__pycache__"}

// DefaultMaxSize is the largest package that Ray's dashboard accepts, in bytes.
const DefaultMaxSize = dashboardclient.MaxPackageSize

// ErrTooLarge means that the package would be larger than Options.MaxSize. The error names the largest files.
var ErrTooLarge = errors.New("package too large")

// ErrNotDirectory means that the path to pack is a file.
var ErrNotDirectory = errors.New("not a directory: give the directory it is in")

// ErrNotZip means that a working directory that is given as a package is none.
var ErrNotZip = errors.New("not a zip file that can be unpacked")

// NamesError means that files or directories have names that Ray cannot unpack, with a backslash or not in UTF-8.
type NamesError struct {
	// Names are all of them, relative to the directory, without those below a directory of such a name.
	Names []string
}

func (e *NamesError) Error() string { return "Ray cannot unpack the names " + e.List() }

// List is the names in quotes, with commas; only the first ones of many.
func (e *NamesError) List() string {
	const most = 100
	quoted := make([]string, 0, most)
	for i, name := range e.Names {
		if i == most {
			return fmt.Sprintf("%s and %d more", strings.Join(quoted, ", "), len(e.Names)-most)
		}
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	return strings.Join(quoted, ", ")
}

// Options configures a package. The zero value is good.
type Options struct {
	// Excludes are patterns in .gitignore syntax, relative to the directory.
	Excludes []string
	// NoGitignore packs also what git ignores, but not what .rayignore leaves out. git is not asked.
	NoGitignore bool
	// CacheDir is the directory for packages and the memory of unchanged directories. Empty: "rayctl/packages" in the user's cache directory.
	CacheDir string
	// MaxSize is the largest package allowed, in bytes. 0: DefaultMaxSize.
	MaxSize int64
	// Progress, if given, is called from time to time, from one goroutine at a time, never after return.
	Progress func(Progress)
	// Logger gets a warning for each file that is left out without a pattern: vanished, a broken link, a socket. Nil: no logging.
	Logger *slog.Logger
}

// Progress is the progress of packing.
type Progress struct {
	// Files and Bytes are packed so far, of TotalFiles and TotalBytes (before compression).
	Files, TotalFiles int
	Bytes, TotalBytes int64
}

// Package is a finished package.
type Package struct {
	// URI is "gcs://_ray_pkg_HASH.zip", for Ray's working_dir or py_modules.
	URI string
	// Path is the zip file in the cache. It stays for a week after its last use.
	Path string
	// Size is the zip's size in bytes.
	Size int64
	// Files and Bytes are the content, before compression.
	Files int
	Bytes int64
	// LeftOut is what .gitignore files leave out, the largest first.
	LeftOut []LeftOut
	// Notes are sentences for the user: what is packed otherwise than the user may expect.
	Notes []string
	// Reused is true if nothing had to be read: the directory is unchanged since the last packing.
	Reused bool

	sum string // of the zip, see memory
}

// IsArchive reports whether a working directory is a package already: a zip file of this machine, as Ray takes it.
func IsArchive(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && strings.EqualFold(filepath.Ext(path), ".zip")
}

// WorkingDir packs a directory for Ray's working_dir. A zip file is taken as it is, and no options change it.
func WorkingDir(ctx context.Context, dir string, opts Options) (*Package, error) {
	if IsArchive(dir) {
		return archive(dir, opts)
	}
	root, err := directory(dir)
	if err != nil {
		return nil, fmt.Errorf("pack working directory: %w", err)
	}
	pkg, err := makePackage(ctx, source{root: root}, opts)
	if err != nil {
		return nil, fmt.Errorf("pack working directory %s: %w", dir, err)
	}
	return pkg, nil
}

// Module packs a Python package (a directory) or module (a .py file) for Ray's py_modules. The zip has a directory under its
// own name, because Ray adds the directory with the unpacked zip to the module search path. A wheel is not repacked.
func Module(ctx context.Context, path string, opts Options) (*Package, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("pack module %s: %w", path, err)
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return nil, fmt.Errorf("pack module: %w", err)
	}
	src := source{root: absolute, prefix: filepath.Base(absolute)}
	switch {
	case info.IsDir():
	case filepath.Ext(absolute) == ".whl":
		return &Package{URI: "gcs://" + filepath.Base(absolute), Path: absolute, Size: info.Size(), Files: 1, Bytes: info.Size()}, nil
	case filepath.Ext(absolute) == ".py":
		src = source{root: filepath.Dir(absolute), only: filepath.Base(absolute)}
	default:
		return nil, fmt.Errorf("pack module %s: it is neither a directory nor a .py or .whl file", path)
	}
	pkg, err := makePackage(ctx, src, opts)
	if err != nil {
		return nil, fmt.Errorf("pack module %s: %w", path, err)
	}
	return pkg, nil
}

// archive is the package that a zip file is.
func archive(path string, opts Options) (*Package, error) {
	fail := func(err error) (*Package, error) { return nil, fmt.Errorf("read the package %s: %w", path, err) }
	content, err := zip.OpenReader(path)
	if errors.Is(err, zip.ErrFormat) || errors.Is(err, zip.ErrAlgorithm) || errors.Is(err, zip.ErrInsecurePath) {
		return fail(fmt.Errorf("%w: %w", ErrNotZip, err))
	}
	if err != nil {
		return fail(err)
	}
	defer func() { _ = content.Close() }() // it was only read
	pkg := &Package{}
	for _, f := range content.File {
		if !f.FileInfo().IsDir() {
			pkg.Files++
			pkg.Bytes += int64(f.UncompressedSize64)
		}
	}
	if pkg.Path, err = filepath.Abs(path); err != nil {
		return fail(err)
	}
	if pkg.sum, pkg.Size, err = sumOf(path); err != nil {
		return fail(err)
	}
	if limit := cmp.Or(opts.MaxSize, DefaultMaxSize); pkg.Size > limit {
		return fail(fmt.Errorf("%w: it has %d MiB, and Ray takes less than %d MiB", ErrTooLarge, pkg.Size>>20, (limit+1)>>20))
	}
	pkg.URI = "gcs://_ray_pkg_" + pkg.sum[:32] + ".zip"
	return pkg, nil
}

// Missing returns which of the paths, with slashes, are neither a file nor a directory in the package at path.
func Missing(path string, paths []string) (missing []string, err error) {
	if len(paths) == 0 {
		return nil, nil
	}
	content, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("read the package %s: %w", path, err)
	}
	defer func() { _ = content.Close() }() // it was only read
	for _, wanted := range paths {
		has := func(f *zip.File) bool {
			return wanted == "." || f.Name == wanted || strings.HasPrefix(f.Name, strings.TrimSuffix(wanted, "/")+"/")
		}
		if !slices.ContainsFunc(content.File, has) {
			missing = append(missing, wanted)
		}
	}
	return missing, nil
}

var uri = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// IsRemote reports whether a working directory or module is a URI that Ray's nodes fetch themselves (s3://, gs://, https://, gcs://, ...).
// Such URIs are passed on unchanged.
func IsRemote(path string) bool { return uri.MatchString(path) }

// source is what is packed.
type source struct {
	root   string // absolute
	prefix string // directory inside the zip; empty: the top
	only   string // the only file of root to pack; empty: all
}

// directory returns the absolute path of a directory.
func directory(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is a file, %w", dir, ErrNotDirectory)
	}
	return absolute, nil
}

// makePackage returns the remembered package if nothing changed, and packs otherwise.
func makePackage(ctx context.Context, src source, opts Options) (*Package, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.MaxSize == 0 {
		opts.MaxSize = DefaultMaxSize
	}
	cache, err := openCache(opts.CacheDir)
	if err != nil {
		return nil, err
	}
	found, err := walk(ctx, src, opts)
	if err != nil {
		return nil, err
	}
	measured := make(chan []LeftOut, 1) // while the package is made
	go func() {
		ctx, cancel := context.WithTimeout(ctx, measuredTime)
		defer cancel()
		measured <- leftOut(ctx, found.left)
	}()
	pkg, err := cache.packageOf(ctx, src, found.files, opts)
	if err != nil {
		return nil, err
	}
	pkg.LeftOut, pkg.Notes = <-measured, found.notes
	return pkg, nil
}

// packageOf returns the remembered package of these files, or makes it.
func (c *cache) packageOf(ctx context.Context, src source, files []file, opts Options) (*Package, error) {
	if pkg := c.recall(src, files); pkg != nil && pkg.Size <= opts.MaxSize {
		return pkg, nil
	}
	pkg, stable, err := write(ctx, files, c.dir, opts)
	if err != nil {
		return nil, err
	}
	if stable {
		c.remember(src, files, pkg)
	}
	c.prune()
	return pkg, nil
}
