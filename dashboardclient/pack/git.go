package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"golang.org/x/sync/errgroup"
)

// gitListing is what git says about a directory, in paths below it.
type gitListing struct {
	files   []string // tracked ones, also deleted ones, and those that git would add; a repository in the directory is listed as itself
	ignored []string // what is neither; a directory stands for all that is in it, and ends in a slash

	git, dir    string          // the program, and the directory without links
	ignoredDirs map[string]bool // see ignoresDir
}

// gitFiles asks git for the files of a directory. It returns nil where no work tree is, or no git. names are of files and directories that need not be listed.
func gitFiles(ctx context.Context, dir string, names []string) (*gitListing, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	top, ok := workTree(real)
	if !ok {
		return nil, nil
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, nil //nolint:nilerr // our own matcher is for machines without git
	}
	standard := append([]string{"--others", "--exclude-standard"}, unlisted(top, real, names)...)
	listing := &gitListing{git: git, dir: real}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		listing.files, err = lsFiles(ctx, git, real, append([]string{"--cached"}, standard...)...)
		return err
	})
	g.Go(func() (err error) {
		listing.ignored, err = lsFiles(ctx, git, real, append([]string{"--ignored", "--directory"}, standard...)...)
		return err
	})
	if err := g.Wait(); err != nil {
		if strings.Contains(err.Error(), "not a git repository (or any") { // GIT_CEILING_DIRECTORIES
			return nil, nil
		}
		return nil, err
	}
	listing.ignored = withoutTwice(listing.ignored)
	return listing, nil
}

// withoutTwice leaves out directories that have nothing but ignored files: git lists those beside them, and its patterns are for the files.
func withoutTwice(ignored []string) (once []string) {
	for i, name := range ignored {
		if !strings.HasSuffix(name, "/") || i+1 == len(ignored) || !strings.HasPrefix(ignored[i+1], name) {
			once = append(once, name)
		}
	}
	return once
}

// workTree returns the nearest directory above, or the directory itself, that seems to be the top of a work tree. git knows better, but starting it takes
// longer than to look.
func workTree(dir string) (top string, ok bool) {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// unlisted are the options by which git does not look into directories of these names. Their patterns count from the top of the work tree.
func unlisted(top, dir string, names []string) (args []string) {
	prefix, err := filepath.Rel(top, dir)
	if err != nil || strings.ContainsAny(prefix, "*?[\\") {
		return nil
	}
	for _, name := range names {
		if prefix != "." {
			name = "/" + filepath.ToSlash(prefix) + "/**/" + name
		}
		args = append(args, "--exclude="+name)
	}
	return args
}

// ignoresDir reports whether a pattern of git is for a directory that has a tracked file: then its other files are in ignored, and not the directory.
func (l *gitListing) ignoresDir(ctx context.Context, dir string) (bool, error) {
	if l.ignoredDirs != nil {
		return l.ignoredDirs[dir], nil
	}
	leading := map[string]bool{}
	for _, name := range l.ignored {
		for parent := parentOf(strings.TrimSuffix(name, "/")); parent != ""; parent = parentOf(parent) {
			leading["./"+parent] = true // a path that begins with ":" is none for this command
		}
	}
	l.ignoredDirs = map[string]bool{}
	if len(leading) == 0 {
		return false, nil
	}
	c := gitCommand(ctx, l.git, l.dir, "check-ignore", "--no-index", "-z", "--stdin")
	c.Stdin = strings.NewReader(strings.Join(slices.Collect(maps.Keys(leading)), "\x00"))
	names, err := paths(ctx, c)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 { // none
		return false, nil
	}
	for _, name := range names {
		l.ignoredDirs[strings.TrimPrefix(name, "./")] = true
	}
	return l.ignoredDirs[dir], err
}

// lsFiles runs `git ls-files`.
func lsFiles(ctx context.Context, git, dir string, args ...string) ([]string, error) {
	return paths(ctx, gitCommand(ctx, git, dir, append([]string{"ls-files", "-z"}, args...)...))
}

// gitCommand is a command in a directory that may be a repository of somebody else, whose configuration names programs. Of those that git can run, listing
// files would run core.fsmonitor, and in a partial clone those that fetch a missing object (core.sshCommand, remote.*.uploadpack, credential.helper): both
// are switched off. Filters, hooks, aliases and the pagers of a terminal are of other commands.
func gitCommand(ctx context.Context, git, dir string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, git, append([]string{"--no-pager", "-c", "core.fsmonitor=false"}, args...)...)
	c.Dir = dir
	c.Env = append(withoutRepository(c.Environ()), "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	c.WaitDelay = time.Second // after ctx, for what git itself started
	return c
}

// paths runs a command and returns the paths that it prints, sorted, each once.
func paths(ctx context.Context, c *exec.Cmd) ([]string, error) {
	var complaint bytes.Buffer
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		return nil, gitError(ctx, err, complaint.String())
	}
	var names []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name == "" {
			continue
		}
		if !filepath.IsLocal(name) { // in an index that git did not write
			return nil, fmt.Errorf("it lists %q, which is not in the directory", name)
		}
		names = append(names, name)
	}
	slices.SortFunc(names, compareNames)
	return slices.Compact(names), nil
}

// gitError is the reason that git gives.
func gitError(ctx context.Context, err error, complaint string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for line := range strings.Lines(complaint) {
		if reason, ok := strings.CutPrefix(line, "fatal: "); ok {
			return errors.New(strings.TrimSpace(reason))
		}
	}
	return err
}

// trustHint is the next step where git refuses a repository that belongs to somebody else; else empty.
func trustHint(dir string, err error) string {
	if !strings.Contains(err.Error(), "dubious ownership") {
		return ""
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	top, _ := workTree(dir)
	return "; `git config --global --add safe.directory " + shellescape.Quote(top) + "` if you trust it"
}

// ofRepository are the variables by which git takes another repository than that of the directory, as `git rev-parse --local-env-vars` lists them, or
// other paths. They are set in hooks and by some users for their dotfiles. The user's own configuration in GIT_CONFIG_* stays.
var ofRepository = []string{
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE",
	"GIT_INDEX_FILE", "GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE",
	"GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
}

func withoutRepository(env []string) []string {
	return slices.DeleteFunc(env, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(ofRepository, name)
	})
}

// compareNames is the order of a walk that goes through each directory by name.
func compareNames(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] {
			continue
		}
		if a[i] == '/' || b[i] != '/' && a[i] < b[i] {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}
