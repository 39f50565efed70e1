package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/pace"
)

// TestOwnTrainer runs the file and the script of docs/own-trainer.md: the first attempt is killed, the second one continues and is ended with its grace, and the
// next run continues and finishes.
func TestOwnTrainer(t *testing.T) {
	pace.Parallel(t)
	u := newUser(t)
	blocks := blocksOf(t, filepath.Join("..", "..", "docs", "own-trainer.md"))
	u.write("rayctl.yaml", blocks["yaml"])
	u.write("trainer.py", blocks["python"])
	one := []string{"--set", "workers.rollout.replicas=1"} // the test's saving

	first := u.start(false, append([]string{"run", "--name", "own-first"}, one...)...)
	first.until("step 12 ", 1)
	killDriver(t, "own-first", "1", "trainer.py")
	first.until("continues after step", 2)
	saved := number(t, first.String(), "attempt 2 continues after step", 0)
	if saved < 10 || saved%10 != 0 {
		t.Errorf("the second attempt continues after step %d", saved)
	}
	eventually(t, "a step of the second attempt", func() bool {
		_, second, _ := strings.Cut(first.String(), "attempt 2 continues")
		return strings.Contains(second, "\nstep "+strconv.Itoa(saved+1)+" ")
	})
	u.want(0, "down", "own-first")
	if code := first.code(); code != runstate.CodeInterrupted {
		t.Errorf("exit code %d: %s", code, tail(first.String()))
	}
	stopped := number(t, u.want(0, "logs", "own-first", "--attempt", "2").out, "stopped after step", 0)

	steps := strconv.Itoa(stopped + 3)
	next := u.want(0, append(append([]string{"run", "--name", "own-next"}, one...), "--", "python", "trainer.py", "--steps", steps)...)
	contains(t, "the next run", next.out, "attempt 1 continues after step "+strconv.Itoa(stopped)+"\n", "trained for "+steps+" steps")
}

// blocksOf are the fenced blocks of a page that have a language, by the language.
func blocksOf(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)\n```(\\w+)\n(.*?)\n```\n").FindAllStringSubmatch(string(text), -1) {
		if blocks[m[1]] != "" {
			t.Fatalf("%s has two blocks of %s", page, m[1])
		}
		blocks[m[1]] = m[2] + "\n"
	}
	return blocks
}

// killDriver kills the Python process of an attempt's driver.
func killDriver(t *testing.T, run, attempt, script string) {
	t.Helper()
	pid := driverProcess(t, run, attempt, script)
	if pid == 0 {
		t.Fatalf("no process of attempt %s of %s runs %s", attempt, run, script)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// number is what stands behind a text in the output, the nth time from 0.
func number(t *testing.T, output, text string, nth int) int {
	t.Helper()
	found := regexp.MustCompile(regexp.QuoteMeta(text)+` (\d+)`).FindAllStringSubmatch(output, -1)
	if len(found) <= nth {
		t.Fatalf("%q is there %d times: %s", text, len(found), tail(output))
	}
	n, err := strconv.Atoi(found[nth][1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
