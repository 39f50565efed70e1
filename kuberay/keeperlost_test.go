package kuberay_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/faults"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestKeeperLostAround: a keeper is lost before the gang is there, its process and then its pod with all that was on its disk (a working directory
// for which a Secret has room, and a larger one), and both while its cluster ends. TestKeeperKilledAgain does the same while the driver runs.
func TestKeeperLostAround(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	early, pay := whole(t, "early")
	early.Sections = kuberayspec.In(&kuberayspec.Section{Queue: b.tinyQueue(t)})
	waits := b.beginWith(t, b.l, early, pay)
	large := make([]byte, 3<<20)
	_, _ = rand.Read(large)
	other, otherPay := wholeWith(t, "large", large)
	other.Sections = kuberayspec.In(kuberayspec.Of(early))
	resends := b.beginWith(t, b.l, other, otherPay)
	for _, r := range []*watchedRun{waits, resends} {
		r.until(t, "word of the queue's limit", func(st launcher.Status) bool { return st.Reason.Code == "QueueFull" && len(st.Timeline) > 0 })
	}
	queued := time.Now()

	late := named("late", stoppingDriver)
	grace := units.Duration(patience)
	late.Job.Grace = &grace
	ends := b.begin(t, b.l, late)
	ends.printed(t, "begun\n")

	b.loseKeeper(t, waits.id, func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) })
	b.loseKeeper(t, waits.id, func(int) { b.killKeeper(t, waits.id) })
	b.loseKeeper(t, resends.id, func(int) { b.killKeeper(t, resends.id) })
	waited := time.Since(queued).Seconds()
	b.widen(t, kuberayspec.Of(early).Queue)

	ends.actions <- launcher.Stop
	ends.printed(t, "stopping\n")
	b.loseKeeper(t, ends.id, func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) })
	b.loseKeeper(t, ends.id, func(int) { b.killKeeper(t, ends.id) })
	b.release(t, ends.id)
	if e := ends.wantEnd(t, "interrupted", runstate.CodeInterrupted, "begun\nstopping\nsaved\n"); strings.Contains(e.Message, "Ray's job API") {
		t.Errorf("the end has another reason than the one that was given: %+v", e)
	}

	waits.printed(t, "begun\n")
	b.release(t, waits.id)
	waits.wantEnd(t, "succeeded", 0, "packed enveloped hidden\nbegun\ndone\n")
	waits.wantOneAccount(t, 0)
	if d := waits.outcome.Receipt.Durations; d.Queued < waited || waits.outcome.Receipt.Usage.NodeSeconds > d.Total-waited {
		t.Errorf("it was queued for %.1f s at least: %+v, %+v", waited, d, waits.outcome.Receipt.Usage)
	}
	resends.printed(t, "begun\n")
	b.release(t, resends.id)
	resends.wantEnd(t, "succeeded", 0, "packed enveloped hidden\nbegun\ndone\n")
}

// TestKeeperLostBeforeRecord: the keeper's pod is lost after the client received the end and before the record fetched the output. The head still
// runs, so the record gets the output from the next keeper.
func TestKeeperLostBeforeRecord(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	r := b.begin(t, b.l, named("unsaved", waitingDriver))
	r.printed(t, "begun\n")
	pod, keeper := b.keeperProcess(t, r.id)
	_, record := b.roleProcess(t, r.id, "record", "\x00/rayctl/keeper.pyz\x00record\x00")
	if err := faults.Stop(record); err != nil {
		t.Fatal(err)
	}
	b.release(t, r.id)
	result := fmt.Sprintf("/proc/%d/root%s/result.json", keeper, argumentsOf(t, keeper)[1])
	kubetest.Await(t, "the keeper's result", func(context.Context) error {
		_, err := os.Stat(result)
		return err
	})
	if err := b.Core.CoreV1().Pods(b.namespace).Delete(t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(record, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.wantEnd(t, "succeeded", 0, "begun\ndone\n")
	var saved bytes.Buffer
	if _, err := launcher.Attach(t.Context(), b.l, r.id, launcher.RunOptions{Stdout: &saved}); err != nil || saved.String() != "begun\ndone\n" {
		t.Errorf("saved: %q, %v", saved.String(), err)
	}
}

// argumentsOf are those of a process of the keeper's program, after its role.
func argumentsOf(t *testing.T, pid int) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, arguments, _ := strings.Cut(string(text), "\x00/rayctl/keeper.pyz\x00")
	return strings.Split(arguments, "\x00")
}
