package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// rules decide what is left out. Each kind of file has its own chain, in which a deeper or later pattern overrides, as in git. What Options.Excludes or a
// .rayignore excludes is left out, as in Ray. What one of them takes back ("!") is packed although a .gitignore leaves it out.
type rules struct {
	excludes, rayignore []pattern
	gitignore           []pattern // empty where git itself lists the files
	// ignored: a .gitignore leaves this directory out. Only what is taken back by its own path is packed.
	ignored bool
	// noGitignore: nothing that git ignores is left out from here on: it is taken back, or Options.NoGitignore.
	noGitignore bool
	negations   *[]*negation // of all excludes and .rayignore files so far
}

// newRules returns the rules at the top of a directory that is packed, without the files in it.
func newRules(opts Options) rules {
	r := rules{noGitignore: opts.NoGitignore, negations: new([]*negation)}
	for _, line := range DefaultExcludes {
		r.excludes = append(r.excludes, parsePatterns([]byte(line), 0)...)
	}
	for _, line := range opts.Excludes {
		r.excludes = append(r.excludes, parsePatterns([]byte(line), 0)...)
	}
	r.register(r.excludes, "the excludes")
	return r
}

// register remembers which patterns take something back.
func (r rules) register(patterns []pattern, source string) {
	for _, p := range patterns {
		if p.negation != nil {
			p.negation.source = source
			*r.negations = append(*r.negations, p.negation)
		}
	}
}

// names are the excludes without a path, if no exclude takes anything back.
func (r rules) names() (names []string) {
	for _, p := range r.excludes {
		switch {
		case p.negation != nil:
			return nil
		case p.nameOnly && p.dirsOnly && p.wildcards == nil && !p.endsWith:
			names = append(names, p.literal+"/")
		case p.nameOnly && p.wildcards == nil && !p.endsWith:
			names = append(names, p.literal)
		}
	}
	return names
}

// verdict is what a chain says about a path.
type verdict int

const (
	unmentioned verdict = iota
	excluded
	takenBack
)

// in returns the rules inside a directory, given those of its parent. relative is its path, empty for the top.
func (r rules) in(dir, relative string, entries []fs.DirEntry) (rules, error) {
	for _, entry := range entries {
		var err error
		switch name := entry.Name(); {
		case name == ".gitignore" && !r.noGitignore && entry.Type().IsRegular(): // git does not follow links
			r.gitignore, err = extend(r.gitignore, filepath.Join(dir, name), baseOf(relative))
		case name == rayignore:
			r, err = r.withRayignore(dir, relative)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

const rayignore = ".rayignore"

// withRayignore adds the patterns of a directory's .rayignore, if there is one.
func (r rules) withRayignore(dir, relative string) (rules, error) {
	var err error
	before := len(r.rayignore)
	r.rayignore, err = extend(r.rayignore, filepath.Join(dir, rayignore), baseOf(relative))
	if err == nil {
		r.register(r.rayignore[before:], strings.TrimPrefix(relative+"/"+rayignore, "/"))
	}
	return r, err
}

// baseOf is the length of what a path inside a directory begins with.
func baseOf(relative string) int {
	if relative == "" {
		return 0
	}
	return len(relative) + 1 // the slash
}

// ours is what the excludes and .rayignore files say about a path. left: a .gitignore leaves it out.
func (r rules) ours(path string, dir, left bool) verdict {
	e, byExclude := decide(r.excludes, path, dir)
	i, byRayignore := decide(r.rayignore, path, dir)
	if e == excluded || i == excluded {
		return excluded
	}
	if e == unmentioned && i == unmentioned {
		return unmentioned
	}
	byExclude.mark(left)
	byRayignore.mark(left)
	return takenBack
}

// gitignored reports whether a .gitignore leaves a path out, where git is not asked.
func (r rules) gitignored(path string, dir bool) bool {
	if r.noGitignore || r.ignored {
		return false
	}
	v, _ := decide(r.gitignore, path, dir)
	return v == excluded
}

// takesBackBelow reports whether a pattern takes back something in a directory that a .gitignore leaves out, without the directory itself. A pattern
// without a path ("!*.csv") does not, as in git: each directory would have to be searched.
func (r rules) takesBackBelow(dir string) bool {
	for _, chain := range [][]pattern{r.excludes, r.rayignore} {
		for i := range chain {
			if chain[i].takesBackBelow(dir) {
				return true
			}
		}
	}
	return false
}

// decision is the pattern that decided, and whether an earlier one had excluded the path.
type decision struct {
	by     *pattern
	before bool
}

// mark notes that a pattern takes something back.
func (d decision) mark(left bool) {
	if d.by != nil && (d.before || left) {
		d.by.negation.effective = true
	}
}

// decide returns what the last matching pattern says.
func decide(chain []pattern, path string, dir bool) (verdict, decision) {
	for i := len(chain) - 1; i >= 0; i-- {
		if !chain[i].matches(path, dir) {
			continue
		}
		if chain[i].negation == nil {
			return excluded, decision{}
		}
		before, _ := decide(chain[:i], path, dir)
		return takenBack, decision{by: &chain[i], before: before == excluded}
	}
	return unmentioned, decision{}
}

// extend adds the patterns of a file, if it exists.
func extend(chain []pattern, path string, base int) ([]pattern, error) {
	content, err := readRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return chain, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the patterns: %w", err)
	}
	return append(chain[:len(chain):len(chain)], parsePatterns(content, base)...), nil // siblings append to the same parent
}

// gitExclude is the path of this clone's own file of patterns, if the directory is the top of a repository. In a linked working tree
// ("git worktree add") .git is a file with the name of a directory, which has a file with the name of the clone's.
func gitExclude(root string) string {
	dir := filepath.Join(root, ".git")
	if content, err := readRegular(dir); err == nil {
		dir = from(root, strings.TrimPrefix(string(content), "gitdir:"))
		if common, err := readRegular(filepath.Join(dir, "commondir")); err == nil {
			dir = from(dir, string(common))
		}
	}
	return filepath.Join(dir, "info", "exclude")
}

// from resolves a path that is relative to a directory.
func from(dir, path string) string {
	path = strings.TrimSpace(path)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// readRegular reads a file. Anything else of that name (a directory, a pipe without a writer) counts as missing.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, syscall.ENOTDIR) || err == nil && !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
