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
	window  = 2 * time.Second
	spare   = 0.5             // processors that must have been idle in a window
	headway = 4 * time.Second // until the next test may begin: this one's work is seen by then
	longest = time.Minute     // after which the next test begins however busy the processors are
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
	for {
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
		if busy && time.Since(lastBegin()) < pause(load) {
			lock.Release()
			continue
		}
		if err := os.Chtimes(lockFile(), time.Time{}, time.Now()); err != nil {
			t.Error(err)
		}
		go func() {
			time.Sleep(headway)
			lock.Release()
		}()
		return
	}
}

// lastBegin is when a test of this user has begun last. A new lock is as old as its file: the first test waits for others' work, too.
func lastBegin() time.Time {
	info, err := os.Stat(lockFile())
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// pause is how long after the last one a test begins although the processors are busy: the longer, the more processes want each of them. Where Ray's starts
// compete with ten others each, its own limits pass, and the clusters that run meanwhile cost more than what is gained by running them side by side.
func pause(load float64) time.Duration {
	return min(longest, max(headway, time.Duration(load*float64(headway))))
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
