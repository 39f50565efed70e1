package rayenv

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rayctl/rayctl/local/uvtool"
)

// countEvery is how often what has arrived is counted.
const countEvery = time.Second

// arrivals counts what uv fetches during one step: uv itself says nothing between the beginning and the end of a package. It unpacks each one in a directory .tmp* of
// its cache while it arrives, and puts it among the archives then.
type arrivals struct {
	cache string
	say   func(string)
	stop  chan struct{}
	ended sync.WaitGroup

	wanted string           // the packages, as uv says: "57 packages"
	old    map[string]bool  // what lay in the cache before
	sizes  map[string]int64 // of the archives that are complete
	last   string
}

// newArrivals begins with what the cache has; "": the cache of uv is not known, and nothing is counted.
func newArrivals(cache string, say func(string)) *arrivals {
	a := &arrivals{cache: cache, say: say, stop: make(chan struct{}), old: map[string]bool{}, sizes: map[string]int64{}}
	for _, path := range append(a.archives(), a.unfinished()...) {
		a.old[path] = true
	}
	return a
}

// cacheOf is where uv keeps what it fetches; "" where it does not say.
func cacheOf(ctx context.Context, tool uvtool.Tool) string {
	cmd := exec.CommandContext(ctx, tool.Path, "cache", "dir", "--color=never")
	cmd.Env = append(os.Environ(), tool.Env...)
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// oneAtATime is say for the installer's lines and the counts, which come side by side.
func oneAtATime(say func(string)) func(string) {
	var mu sync.Mutex
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		say(text)
	}
}

func (a *arrivals) archives() []string   { return a.matching("archive-v*", "*") }
func (a *arrivals) unfinished() []string { return a.matching(".tmp*") }

func (a *arrivals) matching(pattern ...string) []string {
	if a.cache == "" {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(append([]string{globQuoted(a.cache)}, pattern...)...))
	if err != nil {
		return nil
	}
	return found
}

var (
	resolved = regexp.MustCompile(`^Resolved (\d+ packages?) in `)
	prepared = regexp.MustCompile(`^Prepared \d+ packages? in `)
)

// heard is told each line that uv prints: it begins when uv knows the packages, and ends when it has them all.
func (a *arrivals) heard(line string) {
	if m := resolved.FindStringSubmatch(line); m != nil && a.wanted == "" && a.cache != "" {
		a.wanted = m[1]
		a.ended.Go(a.watch)
	}
	if prepared.MatchString(line) {
		a.end()
		a.report()
	}
}

// end ends the counting. It may be called twice.
func (a *arrivals) end() {
	select {
	case <-a.stop:
	default:
		close(a.stop)
	}
	a.ended.Wait()
}

func (a *arrivals) watch() {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		select {
		case <-a.stop:
			return
		case <-tick.C:
			a.report()
		}
	}
}

// report says what has arrived, if that has changed.
func (a *arrivals) report() {
	packages, bytes := a.count()
	text := fmt.Sprintf("installing %s: %d fetched, %.1f MB unpacked", a.wanted, packages, float64(bytes)/1e6)
	if a.wanted == "" || bytes == 0 || text == a.last {
		return
	}
	a.last = text
	a.say(text)
}

// count is how many packages are there, and how large they and the parts of others are, unpacked.
func (a *arrivals) count() (packages int, bytes int64) {
	for _, path := range a.unfinished() {
		if !a.old[path] {
			bytes += unpacked(path)
		}
	}
	for _, path := range a.archives() {
		if a.old[path] {
			continue
		}
		if _, known := a.sizes[path]; !known {
			a.sizes[path] = unpacked(path)
		}
		bytes += a.sizes[path]
		packages++
	}
	return packages, bytes
}

// unpacked is the size of the files below a path. What goes meanwhile does not count.
func unpacked(path string) (n int64) {
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // the rest counts
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
