package raytest_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/test/raytest"
)

const holdHead = "RAYTEST_HOLD_HEAD"

func TestMain(m *testing.M) { raytest.Main(m) }

func TestKillLeavesNothing(t *testing.T) {
	head := raytest.StartHead(t, raytest.HeadOptions{})
	if info, err := head.Client(t).Version(t.Context()); err != nil || info.RayVersion != raytest.Ray260 {
		t.Fatal(info, err)
	}
	if len(processesOf(t, head.TempDir)) < 5 {
		t.Fatal("a running head's processes are not recognised")
	}
	head.Kill()
	head.Kill()
	if left := processesOf(t, head.TempDir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if _, err := os.Stat(head.TempDir); !os.IsNotExist(err) {
		t.Errorf("%s is left (%v)", head.TempDir, err)
	}
}

// TestHold is not a test: TestKilledTestLeavesNothing runs this binary with it, and kills it.
func TestHold(t *testing.T) {
	if os.Getenv(holdHead) == "" {
		return
	}
	fmt.Println("temp dir:", raytest.StartHead(t, raytest.HeadOptions{}).TempDir)
	<-t.Context().Done()
}

func TestKilledTestLeavesNothing(t *testing.T) {
	raytest.Env(t, raytest.Ray260) // installed here, where it is logged
	child := exec.Command(os.Args[0], "-test.run=^TestHold$")
	child.Env = append(os.Environ(), holdHead+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	dir := ""
	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); {
		_, dir, _ = strings.Cut(lines.Text(), "temp dir: ")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // "signal: killed"
	if dir == "" {
		t.Fatal("the child started no head")
	}
	deadline := time.Now().Add(time.Minute)
	for len(processesOf(t, dir)) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("left: %q", processesOf(t, dir))
		}
		<-time.After(50 * time.Millisecond)
	}
}

// processesOf lists the command lines with a head's temporary directory.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(line), dir) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
