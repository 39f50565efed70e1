// Package pace lets tests begin when the processors have time for them.
//
// A test that starts Ray computes for seconds and then mostly waits. But waiting is not for nothing: an idle head takes 0.1 to 0.3 of a processor, and starts that compute
// side by side take long enough to exceed what Ray and Slurm allow for them. So few tests run at once on the whole machine, and a further one begins only while a processor
// has nothing to do. Measured on two slow processors: with nine heads at once the load was 126, and a job of Ray's took two minutes from PENDING to RUNNING.
package pace

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/sharedfile"
)

const (
	window  = 2 * time.Second
	spare   = 0.5              // processors that must have been idle in a window
	few     = 1.5              // Ray heads that live, of whatever test, for each processor
	most    = 2.0              // also while processors are idle
	look    = time.Second      // between two looks
	headway = 8 * time.Second  // until the next test may begin: this one's work is seen by then
	longest = 10 * time.Minute // that the next test of this process waits: the heads may be somebody's who keeps them
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

// turn is that of the test of this process that begins next.
var turn sync.Mutex

// Parallel is t.Parallel for a test that starts Ray, Slurm or Kubernetes: it returns when one of the places is free that the tests of all this user's processes share and few
// heads live, or when the processors have time to spare. One of all of them begins at a time, any of those that wait.
func Parallel(t *testing.T) {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		return // such a test is left out with -short, see needs.RealSystem
	}
	leaveToSubtests(t.Name())
	turn.Lock()
	defer turn.Unlock()
	for waits := time.Now(); ; time.Sleep(look) {
		lock, err := sharedfile.Try(lockFile("begin"))
		if err != nil {
			t.Fatal(err)
		}
		if lock == nil {
			continue
		}
		free, may, err := admit(time.Since(waits) >= longest)
		if err != nil || !may {
			lock.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
		if !may {
			continue
		}
		if free != nil {
			take(t, free)
		}
		go func() {
			time.Sleep(headway)
			lock.Release()
		}()
		return
	}
}

// admit decides whether a test may begin, and returns the place that it has then, if there was one.
func admit(overdue bool) (free *sharedfile.Lock, may bool, err error) {
	living := float64(len(heads())) / float64(runtime.NumCPU())
	if living < few {
		if free, err = place(); free != nil || err != nil {
			return free, free != nil, err
		}
	}
	return nil, overdue || living < most && !busy(), nil
}

// places are those that this process's tests have, by the test's name.
var places = struct {
	sync.Mutex
	of map[string]*sharedfile.Lock
}{of: map[string]*sharedfile.Lock{}}

// place is one that no test has, of as many as there are processors; nil: there is none.
func place() (*sharedfile.Lock, error) {
	for i := range runtime.NumCPU() {
		if lock, err := sharedfile.Try(lockFile(fmt.Sprint(i))); lock != nil || err != nil {
			return lock, err
		}
	}
	return nil, nil
}

// take gives the test the place until the test has ended.
func take(t *testing.T, free *sharedfile.Lock) {
	places.Lock()
	defer places.Unlock()
	places.of[t.Name()] = free
	t.Cleanup(func() { leave(t.Name()) })
}

// leave gives a test's place back, if it has one.
func leave(name string) {
	places.Lock()
	defer places.Unlock()
	if lock := places.of[name]; lock != nil {
		lock.Release()
		delete(places.of, name)
	}
}

// leaveToSubtests gives the places back of the tests that this one is a part of: they wait for it.
func leaveToSubtests(name string) {
	for i := strings.LastIndex(name, "/"); i > 0; i = strings.LastIndex(name, "/") {
		name = name[:i]
		leave(name)
	}
}

// heads are the directories in /proc of the Ray heads on this machine: some tests have several, or leave one to those after them.
func heads() (dirs []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		if comm, err := os.ReadFile(name); err == nil && string(comm) == "gcs_server\n" {
			dirs = append(dirs, filepath.Dir(name))
		}
	}
	return dirs
}

// busy watches the processors for a window: whether they have no time to spare.
func busy() bool {
	before, err := stat()
	if err != nil {
		return true // not Linux
	}
	began := time.Now()
	time.Sleep(window)
	now, err := stat()
	return err != nil || now.unused()-before.unused() < spare*time.Since(began).Seconds()
}

// lockFile is this user's, also where the home directory and the tests' cache are another's.
func lockFile(name string) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("rayctl-pace-%d-%s.lock", os.Getuid(), name))
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

// times are sums over all processors.
type times struct{ user, nice, system, idle, wait, irq, soft float64 }

// stat reads proc(5), /proc/stat.
func stat() (s times, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return s, err
	}
	_, err = fmt.Sscanf(string(text), "cpu %f %f %f %f %f %f %f", &s.user, &s.nice, &s.system, &s.idle, &s.wait, &s.irq, &s.soft)
	return s, err
}
