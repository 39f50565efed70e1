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
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/filelock"
)

const (
	window  = 2 * time.Second
	sample  = 100 * time.Millisecond
	spare   = 0.5             // processors that must have been idle in a window
	many    = 3.0             // threads that want each processor: too many for another test
	headway = 4 * time.Second // until the next test may begin: this one's work is seen by then
	longest = 8 * time.Minute // after which the next test begins however busy the processors are
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
		busy, runnable := look()
		lock, err := filelock.Try(lockFile())
		if err != nil {
			t.Fatal(err)
		}
		if lock == nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if busy && time.Since(lastBegin()) < pause(runnable) {
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

// pause is how long after the last one a test begins although the processors are busy: not before those that run have had time to end, unless few threads want each
// processor. Where Ray's starts compete with ten others each, its own limits pass, and what runs side by side costs more than one after the other. A pause that grew in
// proportion, up to a minute, let tests begin faster than they ended on a slow virtual machine: the load of two processors was 40 to 90, and 14 of the first 43 failed.
func pause(runnable float64) time.Duration {
	if runnable > many {
		return longest
	}
	return max(headway, time.Duration(runnable*float64(headway)))
}

// look watches the processors for a window: whether they are busy, and how many threads want each of them. The kernel's load average tells less: it is taken
// every five seconds, as Ray's own timers are, and was 30 where 7 threads could run.
func look() (busy bool, runnable float64) {
	before, err := stat()
	if err != nil {
		return false, 0 // not Linux
	}
	began, sum, samples := time.Now(), 0.0, 0.0
	for time.Since(began) < window {
		time.Sleep(sample)
		now, err := stat()
		if err != nil {
			return false, 0
		}
		sum, samples = sum+now.running-1, samples+1 // without this one
		busy = now.unused()-before.unused() < spare*time.Since(began).Seconds()
	}
	return busy, sum / samples / float64(runtime.NumCPU())
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

// unused is the processor time that the machine has not used since its start, in seconds of one processor.
func (s times) unused() float64 { return (s.idle + s.wait) / ticks }

// ticks are the units of /proc/stat, in a second (USER_HZ, proc(5)).
const ticks = 100

// times are sums over all processors; running is how many threads run or could.
type times struct{ user, nice, system, idle, wait, irq, soft, running float64 }

// stat reads proc(5), /proc/stat.
func stat() (s times, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return s, err
	}
	if _, err = fmt.Sscanf(string(text), "cpu %f %f %f %f %f %f %f", &s.user, &s.nice, &s.system, &s.idle, &s.wait, &s.irq, &s.soft); err != nil {
		return s, err
	}
	_, rest, _ := strings.Cut(string(text), "\nprocs_running ")
	_, err = fmt.Sscanf(rest, "%f", &s.running)
	return s, err
}
