package pack

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// rules say what is left out. Each kind of file is a chain of its own, in which a deeper or later pattern overrides, as in git; what any
// chain excludes is left out, as in Ray.
type rules struct {
	excludes, gitignore, rayignore []gitignore.Pattern
	noGitignore                    bool
}

func newRules(opts Options) rules {
	r := rules{noGitignore: opts.NoGitignore}
	for _, line := range append(append([]string{}, DefaultExcludes...), opts.Excludes...) {
		r.excludes = append(r.excludes, parse(line, nil)...)
	}
	return r
}

// in returns the rules inside a directory, given those of its parent.
func (r rules) in(dir string, domain []string) (rules, error) {
	var err error
	if !r.noGitignore {
		if r.gitignore, err = extend(r.gitignore, filepath.Join(dir, ".gitignore"), domain); err != nil {
			return r, err
		}
	}
	r.rayignore, err = extend(r.rayignore, filepath.Join(dir, ".rayignore"), domain)
	return r, err
}

// skip reports whether a file or directory is left out.
func (r rules) skip(path []string, dir bool) bool {
	for _, chain := range [][]gitignore.Pattern{r.excludes, r.gitignore, r.rayignore} {
		if len(chain) > 0 && gitignore.NewMatcher(chain).Match(path, dir) {
			return true
		}
	}
	return false
}

func extend(chain []gitignore.Pattern, path string, domain []string) ([]gitignore.Pattern, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return chain, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the patterns: %w", err)
	}
	defer file.Close()
	chain = chain[:len(chain):len(chain)] // siblings append to the same parent's
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		chain = append(chain, parse(lines.Text(), domain)...)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the patterns in %s: %w", path, err)
	}
	return chain, nil
}

// parse reads one line. go-git knows neither "[!a]" nor that "dir/**" leaves dir itself alone: both are written so that it means the same.
func parse(line string, domain []string) []gitignore.Pattern {
	line = strings.TrimSuffix(strings.TrimPrefix(line, "\ufeff"), "\r")
	if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	line = strings.ReplaceAll(line, "[!", "[^")
	if inside, ok := strings.CutSuffix(line, "/**"); ok {
		line = inside + "/*"
	}
	return []gitignore.Pattern{gitignore.ParsePattern(line, domain)}
}
