//go:build linux

package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/test/leak"
)

// check checks what must be true after every case.
func (r *runningCase) check(clientCode int, status *launcher.Status) {
	r.nothingAllocated()
	r.checkExit(clientCode, status)
	for _, v := range r.book.violations() {
		if !r.lostHead(v) {
			r.t.Errorf("the driver found: %s", v)
		}
	}
	if again := r.book.repeated(); r.f.gentle && len(again) > 0 {
		r.t.Errorf("tasks were done twice: %q", again)
	}
	r.checkLines("the client's output", r.out.String(), r.f.clientDies || status == nil)
	if r.second != nil {
		r.checkSecond(clientCode)
	}
	if status != nil {
		r.checkRecord(status)
	}
	r.lookForSecrets("after the end")
	r.oneStatus("after the end")
}

// lostHead reports whether a violation is only that an attempt's tasks were not all done, and the fault has ended its head: the driver's process may live a
// moment longer.
func (r *runningCase) lostHead(violation string) bool {
	attempt := 0
	found, _ := fmt.Sscanf(violation, "violation-work-failed-%d", &attempt) // 0: another violation
	return found == 1 && r.f.node && r.struck && (!r.own || attempt != r.book.attempts())
}

// nothingAllocated waits for cleanup by the substrate itself.
func (r *runningCase) nothingAllocated() {
	var left []string
	for limit := time.Now().Add(90 * time.Second); time.Now().Before(limit); time.Sleep(300 * time.Millisecond) {
		if left = r.w.allocated(r.d.run()); len(left) == 0 {
			return
		}
	}
	r.t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
}

// checkExit: the cause is the driver's own end or one explained by the fault; client, record and receipt agree on the code.
func (r *runningCase) checkExit(clientCode int, status *launcher.Status) {
	if status == nil || status.Exit == nil {
		if !slices.Contains(r.f.causes, "abandoned") || r.book.attempts() > 0 {
			r.t.Errorf("the run left no record; the client ended with %d", clientCode)
		}
		return
	}
	exit := *status.Exit
	own := "succeeded"
	if r.d.code != 0 {
		own = "driver-failed"
	}
	causes := r.f.causes
	if r.f.node && r.book.attempts() == 0 { // Ray's own command reported it
		causes = append(slices.Clone(causes), "start-failed")
	}
	if r.f.node && r.book.attempts() > 0 && r.d.restarts > 0 && !strings.HasPrefix(r.d.fault, "keeper killed") {
		causes = nil
	}
	r.own = exit.Cause == own && exit.Code == r.d.code
	switch {
	case r.own:
		last := r.book.attempts()
		if !r.book.ended(last) {
			r.t.Errorf("the exit is the driver's own, but the driver of attempt %d did not come to its end", last)
		}
	case !r.struck || !slices.Contains(causes, exit.Cause):
		r.t.Errorf("the run ended with %s, code %d (%s); after %q (struck: %v) it may end with the driver's own end or %q", exit.Cause, exit.Code, exit.Message, r.d.fault, r.struck, causes)
	}
	if r.f.clientDies {
		return
	}
	if clientCode != exit.Code {
		r.t.Errorf("the client's exit code is %d, the record's %d (%s)", clientCode, exit.Code, exit.Cause)
	}
	var receipt launcher.Receipt
	err := json.Unmarshal(r.receipt(), &receipt)
	if err != nil || receipt.Exit.Code != exit.Code || receipt.Exit.Cause != exit.Cause {
		r.t.Errorf("the receipt (%v) has exit %+v, the record %+v", err, receipt.Exit, exit)
	}
	if r.book.attempts() > 0 && receipt.Usage.NodeSeconds <= 0 && err == nil {
		r.t.Errorf("a driver ran and the receipt charges %.1f node-seconds", receipt.Usage.NodeSeconds)
	}
}

// checkLines: each attempt's lines from 1 on, each once and in order, attempts in order. All lines that an attempt printed are there,
// unless the reader (partly) or the fault may have lost the last ones.
func (r *runningCase) checkLines(what, text string, partly bool) {
	if r.f.gaps && r.struck {
		r.checkGaps(what, text)
		return
	}
	attempt, line := 0, 0
	finish := func() {
		if attempt > 0 && !partly {
			r.complete(what, attempt, line)
		}
	}
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		var a, n int
		if _, err := fmt.Sscanf(l, "attempt %d line %d", &a, &n); err != nil {
			ofRay := r.f.node && r.struck                 // the reason why an attempt could not begin, such as its runtime environment
			if text != "" && !ofRay && r.d.bursts == 0 && // Ray reports nodes that come and go to drivers that use it
				!strings.HasPrefix(l, "Terminated") && !strings.HasPrefix(l, "Killed") && r.d.kind != early { // which prints headings and job.prepare's output
				r.t.Errorf("%s has the line %q", what, l)
			}
			continue
		}
		if a > attempt {
			finish()
			attempt, line = a, 0
		}
		if a != attempt || n != line+1 {
			r.t.Errorf("%s: line %d of attempt %d comes after line %d of attempt %d", what, n, a, line, attempt)
			return
		}
		if want := strings.Repeat("x", n*37%400); !strings.HasSuffix(l, " "+want) {
			r.t.Errorf("%s: line %d of attempt %d is %q", what, n, a, l)
		}
		line = n
	}
	finish()
	if !partly && attempt < r.book.attempts() && !r.mayLose() && r.book.progress(r.book.attempts()) > 0 {
		r.t.Errorf("%s ends with attempt %d, and %d began", what, attempt, r.book.attempts())
	}
}

// checkGaps: no line comes twice or before an earlier one, and where one of the only attempt is missing, or torn, the receipt names a gap.
func (r *runningCase) checkGaps(what, text string) {
	last, whole := 0, 0
	for l := range strings.Lines(text) {
		var a, n int
		if _, err := fmt.Sscanf(l, "attempt %d line %d", &a, &n); err != nil {
			continue // torn by the gap
		}
		if n <= last {
			r.t.Errorf("%s: line %d comes after line %d", what, n, last)
			return
		}
		last = n
		if strings.HasSuffix(strings.TrimSuffix(l, "\n"), " "+strings.Repeat("x", n*37%400)) {
			whole++
		}
	}
	var receipt launcher.Receipt
	if err := json.Unmarshal(r.receipt(), &receipt); err != nil {
		r.t.Errorf("the receipt: %v, %q", err, r.receipt())
	}
	if whole < r.d.lines && len(receipt.Log.Missing) == 0 {
		r.t.Errorf("%s has %d of %d lines, and the receipt names no gap", what, whole, r.d.lines)
	}
	r.t.Logf("%s has %d of %d lines, gaps: %v", what, whole, r.d.lines, receipt.Log.Missing)
}

func (r *runningCase) receipt() []byte {
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(r.job), "receipt.json")) // none where the client died
	return text
}

// oneStatus: `status` and `ls` show the same. A change between the two is no difference: then `status` shows it, too, when it is asked again.
func (r *runningCase) oneStatus(when string) {
	shown := func() (s launcher.Status, ok bool) {
		a := r.rayctl("status", r.d.run(), "-o", "json")
		return s, a.code == 0 && json.Unmarshal([]byte(a.out), &s) == nil
	}
	before, ok := shown()
	a := r.rayctl("ls", "--all", "-o", "json")
	after, still := shown()
	if !ok || !still || a.code != 0 || before.Phase != after.Phase || before.Attempt != after.Attempt {
		return // it does not exist yet, or changes
	}
	var all []launcher.Status
	if err := json.Unmarshal([]byte(a.out), &all); err != nil {
		r.t.Errorf("%s `ls` prints %q: %v", when, a.out, err)
		return
	}
	i := slices.IndexFunc(all, func(s launcher.Status) bool { return s.Name == r.d.run() })
	if i < 0 {
		r.t.Errorf("%s `status` shows %s, and `ls` nothing", when, before.Phase)
		return
	}
	listed := all[i]
	if listed.Phase != before.Phase || listed.Attempt != before.Attempt {
		r.t.Errorf("%s `status` shows %s of attempt %d, and `ls` %s of attempt %d", when, before.Phase, before.Attempt, listed.Phase, listed.Attempt)
	}
	if (listed.Exit == nil) != (before.Exit == nil) || listed.Exit != nil && (listed.Exit.Code != before.Exit.Code || listed.Exit.Cause != before.Exit.Cause) {
		r.t.Errorf("%s `status` shows the exit %+v, and `ls` %+v", when, before.Exit, listed.Exit)
	}
}

// mayLose reports whether the fault may have destroyed output.
func (r *runningCase) mayLose() bool { return r.f.lossy && r.struck }

// complete checks whether an attempt's lines reach its end.
func (r *runningCase) complete(what string, attempt, last int) {
	switch printed := r.book.progress(attempt); {
	case r.book.ended(attempt) && last != r.d.lines:
		if !r.mayLose() || attempt == r.book.attempts() && r.own {
			r.t.Errorf("%s has %d of the %d lines of attempt %d, which came to its end", what, last, r.d.lines, attempt)
		}
	case !r.book.ended(attempt) && last < printed && !r.mayLose():
		r.t.Errorf("%s has %d of the %d lines that attempt %d had printed when it was ended", what, last, printed, attempt)
	}
}

// checkSecond: repeating the command attaches to the same run, with the same result.
func (r *runningCase) checkSecond(clientCode int) {
	done := make(chan error, 1)
	go func() { done <- r.second.Wait() }()
	select {
	case err := <-done:
		if code := exitCode(r.second, err); code != clientCode {
			r.t.Errorf("the first client ended with %d, the second with %d", clientCode, code)
		}
		r.checkLines("the second client's output", r.secondOut.String(), false)
	case <-time.After(patience):
		_ = r.second.Process.Kill()
		r.t.Error("the second client did not end")
	}
}

// checkRecord reads each attempt's saved output back.
func (r *runningCase) checkRecord(status *launcher.Status) {
	for attempt := 1; attempt <= r.book.attempts(); attempt++ {
		if !r.book.begun(attempt) {
			continue
		}
		a := r.rayctl("logs", r.d.run(), "--attempt", strconv.Itoa(attempt))
		if a.code != 0 && a.code != status.Exit.Code || a.out == "" && r.book.progress(attempt) > 0 && !r.mayLose() {
			r.t.Errorf("logs --attempt %d: code %d, %d bytes; %s", attempt, a.code, len(a.out), a.err)
			continue
		}
		r.checkAttempt(attempt, a.out)
	}
	if r.book.attempts() > 0 {
		a := r.rayctl("logs", r.d.run())
		if a.out == "" && r.book.furthest() > 0 && !r.mayLose() {
			r.t.Errorf("logs: code %d, no output; %s", a.code, a.err)
		}
	}
}

func (r *runningCase) checkAttempt(attempt int, text string) {
	what := fmt.Sprintf("the record of attempt %d", attempt)
	if r.f.gaps && r.struck {
		r.checkGaps(what, text)
		return
	}
	last := 0
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		var a, n int
		if _, err := fmt.Sscanf(l, "attempt %d line %d", &a, &n); err != nil {
			continue // a line of Ray or the shell
		}
		if a != attempt || n != last+1 {
			r.t.Errorf("%s: line %d of attempt %d comes after line %d", what, n, a, last)
			return
		}
		last = n
	}
	r.complete(what, attempt, last)
}

// lookForSecrets searches everything that is shown or stored.
func (r *runningCase) lookForSecrets(when string) {
	surfaces := r.w.surfaces(r.d.run())
	surfaces["stdout"], surfaces["stderr"] = []byte(r.out.String()), []byte(r.err.String())
	surfaces["receipt"] = r.receipt()
	tail := r.secret[len(r.secret)-20:] // unchanged by quoting
	for name, text := range surfaces {
		if how := leak.Find(text, tail); how != "" {
			r.t.Errorf("%s the secret is in %s, %s", when, name, how)
		}
	}
}
