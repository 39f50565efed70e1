//go:build linux

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// book is the directory in which the drivers of one case write what they do.
type book string

// has says whether a page is there.
func (b book) has(page string) bool {
	_, err := os.Stat(filepath.Join(string(b), page))
	return err == nil
}

// progress is the number of the last line that an attempt has printed.
func (b book) progress(attempt int) int {
	text, _ := os.ReadFile(filepath.Join(string(b), fmt.Sprintf("progress-%d", attempt))) // none: 0
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// furthest is the number of the last line that any attempt has printed.
func (b book) furthest() int {
	most := 0
	for attempt := range b.attempts() {
		most = max(most, b.progress(attempt+1))
	}
	return most
}

// attempts is the number of the last attempt whose driver began.
func (b book) attempts() int {
	last := 0
	for attempt := 1; attempt < 100; attempt++ { // one that was ended before its driver began leaves nothing
		if b.begun(attempt) {
			last = attempt
		}
	}
	return last
}

func (b book) begun(attempt int) bool { return b.has(fmt.Sprintf("begun-%d", attempt)) }
func (b book) ended(attempt int) bool { return b.has(fmt.Sprintf("ended-%d", attempt)) }

// violations are what drivers found wrong.
func (b book) violations() (out []string) {
	found, _ := filepath.Glob(filepath.Join(string(b), "violation-*"))
	for _, path := range found {
		text, _ := os.ReadFile(path)
		out = append(out, filepath.Base(path)+": "+string(text))
	}
	return out
}
