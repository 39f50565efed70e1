package raytest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/rayctl/rayctl/test/needs"
)

// shared heads of this test binary, by version, for tests that do not concern a cluster's life.
var shared = struct {
	sync.Mutex
	heads map[string]*Head
	errs  map[string]error
}{heads: map[string]*Head{}, errs: map[string]error{}}

// Main is for TestMain: it runs the tests and ends the shared heads.
func Main(m *testing.M) {
	code := m.Run()
	shared.Lock()
	for _, head := range shared.heads {
		head.Kill()
	}
	shared.Unlock()
	os.Exit(code)
}

// Shared returns this test binary's one head of this version (with tokens, if it has them), started at the first
// call. The binary needs TestMain to call Main. Tests must restore the head's state for other tests.
func Shared(t testing.TB, version string) *Head {
	t.Helper()
	needs.RealSystem(t)
	shared.Lock()
	defer shared.Unlock()
	if err := shared.errs[version]; err != nil {
		t.Fatalf("the shared Ray %s head did not start: %v", version, err)
	}
	if shared.heads[version] == nil {
		head, err := Start(t.Context(), HeadOptions{Version: version}, func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, format+"\n", args...)
		})
		if err != nil {
			shared.errs[version] = err
			t.Fatalf("start the shared Ray %s head: %v", version, err)
		}
		shared.heads[version] = head
	}
	return shared.heads[version]
}
