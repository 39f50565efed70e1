package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// siteTest is how a row of sites.md names a test: `folder` TestName/subtest.
var siteTest = regexp.MustCompile("`([\\w/]+)` (Test\\w+)")

// TestSites: each row of sites.md names a test, and the folder has it.
func TestSites(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "sites.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| site feature ") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if len(cells) != 3 {
			t.Errorf("%d cells, not 3: %s", len(cells), line)
			continue
		}
		named := siteTest.FindAllStringSubmatch(cells[2], -1)
		if len(named) == 0 {
			t.Errorf("no test of this form: `folder` TestName: %s", line)
		}
		for _, n := range named {
			if !hasTest(t, n[1], n[2]) {
				t.Errorf("%s has no %s: %s", n[1], n[2], line)
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d rows", rows)
	}
}

// hasTest reports whether a folder's Go files, or those of Python, define a test.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	for _, pattern := range []string{"*_test.go", "test_*.py"} {
		files, err := filepath.Glob(filepath.Join("..", "..", folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "func "+name+"(") || strings.Contains(string(text), "class "+name+"(") {
				return true
			}
		}
	}
	return false
}
