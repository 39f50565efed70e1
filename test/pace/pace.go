// Package pace lets tests begin when the processors have time for them.
//
// A test that starts Ray computes for seconds and then mostly waits. Many can wait side by side; but starts that compute side by side take long enough to
// exceed what Ray and Slurm allow for them. And waiting is not for nothing: each idle Ray node takes 0.07 of a processor, so that many clusters side by side
// leave nothing for those that start. So more tests may run at once than there are processors, and each begins when the processors have time to spare.
package pace

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/filelock"
)

const (
	window   = 2 * time.Second
	spare    = 0.5             // processors that must have been idle in a window
	headway  = 4 * time.Second // until the next test may begin: this one's work is seen by then
	patience = time.Minute     // where others keep the machine busy, a test begins all the same
	crowd    = 12.0            // processes that want each processor: above that, Ray's own limits pass while it starts
	longer   = 3 * patience    // in a crowd: more tests at once would finish later, all of them
)

// AtOnce sets how many tests of this process run at once, unless -test.parallel is given. For TestMain.
func AtOnce(n string) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", n)
	}
}

// Parallel is t.Parallel for a test that starts Ray, Slurm or Kubernetes: it returns when the processors had time to spare. One test of all
// processes of this user begins at a time, any of those that wait.
func Parallel(t *testing.T) {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		return // such a test is left out with -short, see needs.RealSystem
	}
	for began := time.Now(); ; {
		busy := busy()
		load := load()
		lock, err := filelock.Try(lockFile())
		if err != nil {
			t.Fatal(err)
		}
		if lock == nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if busy && !tired(time.Since(began), load) {
			lock.Release()
			continue
		}
		go func() {
			time.Sleep(headway)
			lock.Release()
		}()
		return
	}
}

// tired reports whether a test that has waited for so long begins although the processors are busy.
func tired(waited time.Duration, load float64) bool {
	return waited >= longer || waited >= patience && load < crowd
}

// load is how many processes want each processor, as an average over a minute; 0 where it is not known.
func load() (of float64) {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscanf(string(text), "%f", &of)
	}
	return of / float64(runtime.NumCPU())
}

// busy looks at the processors for a window.
func busy() bool {
	before, err := idle()
	if err != nil {
		return false // not Linux
	}
	began := time.Now()
	time.Sleep(window)
	after, err := idle()
	return err == nil && after-before < spare*time.Since(began).Seconds()
}

// lockFile is this user's, also where the home directory and the tests' cache are another's.
func lockFile() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("rayctl-pace-%d.lock", os.Getuid()))
}

// Busy is the processor time that the machine has spent since its start, in seconds of one processor.
func Busy() (float64, error) {
	s, err := stat()
	return (s.user + s.nice + s.system + s.irq + s.soft) / ticks, err
}

// idle is the processor time that the machine has not used since its start, in seconds of one processor.
func idle() (float64, error) {
	s, err := stat()
	return (s.idle + s.wait) / ticks, err
}

// ticks are the units of /proc/stat, in a second (USER_HZ, proc(5)).
const ticks = 100

type times struct{ user, nice, system, idle, wait, irq, soft float64 }

// stat reads the sums of all processors: proc(5), /proc/stat.
func stat() (s times, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return s, err
	}
	_, err = fmt.Sscanf(string(text), "cpu %f %f %f %f %f %f %f", &s.user, &s.nice, &s.system, &s.idle, &s.wait, &s.irq, &s.soft)
	return s, err
}
