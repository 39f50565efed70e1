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
	"github.com/rayctl/rayctl/launcher/runstate"
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
	r.oneStatus("after the end", true)
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
		refused := r.f.refuses && r.struck && clientCode == runstate.CodeStartFailed
		if !refused && !slices.Contains(r.f.causes, "abandoned") || r.book.attempts() > 0 {
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

// checkGaps: what is missing was printed around the strike, and the receipt names a gap.
func (r *runningCase) checkGaps(what, text string) {
	var receipt launcher.Receipt
	if err := json.Unmarshal(r.receipt(), &receipt); err != nil {
		r.t.Errorf("the receipt: %v, %q", err, r.receipt())
	}
	upTo := r.printed + inFlight
	if r.d.launcher == "kuberay" { // where the log is read through Ray
		if upTo = asLong(r.printed) + inFlight; r.f.rest { // which opens it by its name
			upTo = r.d.lines
		}
	}
	missing, wrong := gaps(text, r.d.lines, r.shown, upTo)
	for _, w := range wrong {
		r.t.Errorf("%s: %s", what, w)
	}
	if missing > 0 && len(receipt.Log.Missing) == 0 {
		r.t.Errorf("%s lacks %d of %d lines, and the receipt names no gap", what, missing, r.d.lines)
	}
	r.t.Logf("%s lacks %d of %d lines, lines %d to %d may be lost, gaps: %v", what, missing, r.d.lines, r.shown+1, min(upTo, r.d.lines), receipt.Log.Missing)
}

// printedLine is line n of an attempt, as testdata/job/driver.py prints it.
func printedLine(attempt, n int) string {
	return fmt.Sprintf("attempt %d line %d %s\n", attempt, n, strings.Repeat("x", n*37%400))
}

// asLong is up to which line a log that was truncated after line n is as long as before: Ray goes on at its old place (logread.py).
func asLong(n int) int {
	had := 0
	for line := 1; line <= n; line++ {
		had += len(printedLine(1, line))
	}
	for ; had > 0; n++ {
		had -= len(printedLine(1, n+1))
	}
	return n
}

// inFlight is how many lines may be between the driver and its log.
const inFlight = 2

// gaps is how many of the lines of the only attempt are missing or torn, and what is wrong: a line twice or before an earlier one, or one missing that no gap
// at the strike explains, because the client had it before (up to shown), or because it was printed after it (from upTo+1 on).
func gaps(text string, lines, shown, upTo int) (missing int, wrong []string) {
	whole, last := map[int]bool{}, 0
	for l := range strings.Lines(text) {
		var a, n int
		if _, err := fmt.Sscanf(l, "attempt %d line %d", &a, &n); err != nil {
			continue // torn by the gap
		}
		if n <= last {
			wrong = append(wrong, fmt.Sprintf("line %d comes after line %d", n, last))
		}
		last = n
		whole[n] = l == printedLine(a, n)
	}
	for n := 1; n <= lines; n++ {
		if whole[n] {
			continue
		}
		missing++
		if n <= shown || n > upTo {
			wrong = append(wrong, fmt.Sprintf("line %d is missing, and the gap can only have lines %d to %d", n, shown+1, upTo))
		}
	}
	return missing, wrong
}

// lastShown is the number of the last whole line of a text.
func lastShown(text string) (last int) {
	for l := range strings.Lines(text) {
		var a, n int
		if _, err := fmt.Sscanf(l, "attempt %d line %d", &a, &n); err == nil && strings.HasSuffix(l, "\n") {
			last = max(last, n)
		}
	}
	return last
}

func (r *runningCase) receipt() []byte {
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(r.job), "receipt.json")) // none where the client died
	return text
}

// looksFor is how long two looks at a run that changes, or of which nobody can be asked, are repeated.
const looksFor = 20 * time.Second

// oneStatus: `status` and `ls` show the same. A change between two looks at the status is no difference: then all look again. Where that was never possible, in
// the time of a fault that keeps everybody from answering, the case says so, and TestCampaign counts it; after the end it is a violation.
func (r *runningCase) oneStatus(when string, always bool) {
	why := ""
	for limit := time.Now().Add(looksFor); time.Now().Before(limit); time.Sleep(300 * time.Millisecond) {
		before, a := r.shownStatus()
		list := r.rayctl("ls", "--all", "-o", "json")
		after, b := r.shownStatus()
		var all []launcher.Status
		switch {
		case list.code != 0:
			why = fmt.Sprintf("ls: code %d, %s", list.code, list.err)
			continue
		case a.code != b.code || before.Phase != after.Phase || before.Attempt != after.Attempt:
			why = "it changes"
			continue
		case a.code != 0 && a.code != runstate.CodeSpec: // which is: it does not exist
			why = fmt.Sprintf("status: code %d, %s", a.code, a.err)
			continue
		}
		if err := json.Unmarshal([]byte(list.out), &all); err != nil {
			r.t.Errorf("%s `ls` prints %q: %v", when, list.out, err)
			return
		}
		var listed *launcher.Status
		if i := slices.IndexFunc(all, func(s launcher.Status) bool { return s.Name == r.d.run() }); i >= 0 {
			listed = &all[i]
		}
		if a.code != 0 {
			before = nil
		}
		if difference := differ(before, listed); difference != "" {
			r.t.Errorf("%s %s", when, difference)
		}
		r.compared++
		return
	}
	r.t.Logf("%s `status` and `ls` could not be compared: %s", when, why)
	if always {
		r.t.Errorf("%s nobody says what is: %s", when, why)
	}
}

// shownStatus is what `status` shows.
func (r *runningCase) shownStatus() (*launcher.Status, result) {
	s, a := new(launcher.Status), r.rayctl("status", r.d.run(), "-o", "json")
	if err := json.Unmarshal([]byte(a.out), s); a.code == 0 && err != nil {
		r.t.Errorf("`status` prints %q: %v", a.out, err)
	}
	return s, a
}

// differ is how two documents of one run differ, "" if they do not; nil: it does not exist.
func differ(status, listed *launcher.Status) string {
	switch {
	case status == nil && listed == nil:
		return ""
	case status == nil:
		return fmt.Sprintf("`status` shows nothing, and `ls` %s", listed.Phase)
	case listed == nil:
		return fmt.Sprintf("`status` shows %s, and `ls` nothing", status.Phase)
	case listed.Phase != status.Phase || listed.Attempt != status.Attempt || listed.Uncommitted != status.Uncommitted:
		return fmt.Sprintf("`status` shows %s of attempt %d, uncommitted: %v, and `ls` %s of attempt %d, uncommitted: %v", status.Phase, status.Attempt, status.Uncommitted, listed.Phase, listed.Attempt, listed.Uncommitted)
	case (listed.Exit == nil) != (status.Exit == nil) || listed.Exit != nil && (listed.Exit.Code != status.Exit.Code || listed.Exit.Cause != status.Exit.Cause):
		return fmt.Sprintf("`status` shows the exit %+v, and `ls` %+v", status.Exit, listed.Exit)
	}
	return ""
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
