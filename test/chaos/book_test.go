//go:build linux

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// book is the directory in which the drivers of one case record what they do.
type book string

// has reports whether a file of the book exists.
func (b book) has(page string) bool {
	_, err := os.Stat(filepath.Join(string(b), page))
	return err == nil
}

// progress is the number of the last line that an attempt has printed.
func (b book) progress(attempt int) int {
	text, _ := os.ReadFile(filepath.Join(string(b), fmt.Sprintf("progress-%d", attempt))) // missing: 0
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
	for attempt := 1; attempt < 100; attempt++ { // an attempt that ended before its driver began leaves no file
		if b.begun(attempt) {
			last = attempt
		}
	}
	return last
}

func (b book) begun(attempt int) bool { return b.has(fmt.Sprintf("begun-%d", attempt)) }
func (b book) ended(attempt int) bool { return b.has(fmt.Sprintf("ended-%d", attempt)) }

// violations are the problems that drivers found.
func (b book) violations() (out []string) {
	found, _ := filepath.Glob(filepath.Join(string(b), "violation-*"))
	for _, path := range found {
		text, _ := os.ReadFile(path)
		out = append(out, filepath.Base(path)+": "+string(text))
	}
	return out
}
