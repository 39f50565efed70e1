package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

func readPage(t *testing.T, path ...string) string {
	t.Helper()
	return readFile(t, filepath.Join(append([]string{".."}, path...)...))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// jsonKeys adds the names that a type has in JSON, with those of all parts that are of the package.
func jsonKeys(of reflect.Type, in string, keys map[string]bool) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		jsonKeys(of.Elem(), in, keys)
	case reflect.Struct:
		if of.PkgPath() != in {
			return
		}
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			keys[name] = true
			jsonKeys(field.Type, in, keys)
		}
	}
}

// TestKeeperDocuments: the examples of the two documents in docs/keeper.md have the keys that the code has.
func TestKeeperDocuments(t *testing.T) {
	page := readPage(t, "keeper.md")
	for heading, c := range map[string]struct {
		of     any
		others []string // what Slurm's batch script adds to the orders, and what is a value or a key of a map
	}{
		"## orders.json\n":   {keeper.Orders{}, []string{"timeline", "allocations", "formerAllocations", "K", "k", "TERM", "detach", "rollout"}},
		"## State document ": {runstate.State{}, []string{"steps_lost", "trainer", "rollout"}},
	} {
		_, rest, _ := strings.Cut(page, heading)
		_, rest, _ = strings.Cut(rest, "```json\n")
		example, _, found := strings.Cut(rest, "\n```\n")
		if !found {
			t.Fatalf("docs/keeper.md has no JSON below %q", heading)
		}
		keys, shown := map[string]bool{}, map[string]bool{}
		jsonKeys(reflect.TypeOf(c.of), reflect.TypeOf(c.of).PkgPath(), keys)
		for _, m := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(example, -1) {
			shown[m[1]] = true
			if !keys[m[1]] && !slices.Contains(c.others, m[1]) {
				t.Errorf("%s%q is no key of %T", heading, m[1], c.of)
			}
		}
		for key := range keys {
			if !shown[key] {
				t.Errorf("%s has no %q, which %T has", strings.TrimSpace(heading), key, c.of)
			}
		}
	}
}

// TestFigures: the figures of README.md are those of docs/measured.md, row by row.
func TestFigures(t *testing.T) {
	measured := readPage(t, "measured.md")
	_, table, _ := strings.Cut(readPage(t, "..", "README.md"), "## Measured\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(table, -1)
	if len(rows) < 5 {
		t.Errorf("README.md has %d rows of figures", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(measured, row+"\n") {
			t.Errorf("docs/measured.md does not have %s", row)
		}
	}
}

// TestAddingALauncher: what docs/adding-a-launcher.md shows of tsp is in its files, and the fields of spec.Substrate that it names exist.
func TestAddingALauncher(t *testing.T) {
	page := readPage(t, "adding-a-launcher.md")
	var sources strings.Builder
	for _, path := range []string{"tsp/types.go", "tsp/section.go", "tsp/tsp.go", "tsp/conformance_test.go", "cmd/launchers.go"} {
		sources.WriteString(readPage(t, "..", path))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Fatal("no code")
	}
	for _, block := range blocks {
		for _, part := range strings.Split(strings.TrimSpace(block[1]), "\n\n") {
			if !strings.Contains(sources.String(), part+"\n") {
				t.Errorf("not in the files of tsp:\n%s", part)
			}
		}
	}
	_, table, _ := strings.Cut(page, "| field | question |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range strings.Split(table, "\n") {
		for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			if _, ok := reflect.TypeFor[spec.Substrate]().FieldByName(m[1]); !ok {
				t.Errorf("spec.Substrate has no field %s", m[1])
			}
		}
	}
}
