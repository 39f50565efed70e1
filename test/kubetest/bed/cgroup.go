package bed

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroups are the directories of the pods' cgroup: one in each hierarchy of version 1, one altogether of version 2.
func (b *Bed) cgroups() []string {
	if hasCgroup2() {
		return []string{filepath.Join(cgroupRoot, b.name())}
	}
	hierarchies, _ := filepath.Glob(cgroupRoot + "/*/cgroup.procs")
	var dirs []string
	for _, procs := range hierarchies {
		dirs = append(dirs, filepath.Join(filepath.Dir(procs), b.name()))
	}
	return dirs
}

// partsCgroup is the cgroup of the testbed's own processes.
func (b *Bed) partsCgroup() string {
	if hasCgroup2() {
		return filepath.Join(cgroupRoot, b.name()+"-parts")
	}
	return filepath.Join(cgroupRoot, "cpu", b.name()+"-parts")
}

func hasCgroup2() bool {
	_, err := os.Stat(cgroupRoot + "/cgroup.controllers")
	return err == nil
}

// podWeights are the weight of 16 CPUs, in version 1 and 2. Otherwise all pods together would weigh as much as one process of the machine and starve beside a busy one.
var podWeights = map[string]string{"cpu.shares": "16384", "cpu.weight": "625"}

// partWeights are the greatest there are: a control plane has machines of its own. With those of pods an API server did not answer for 10 s beside a hundred threads of other
// tests, KubeRay's operator lost its lease and ended, and nothing here starts it again as Kubernetes would.
var partWeights = map[string]string{"cpu.shares": "262144", "cpu.weight": "10000"}

func (b *Bed) writeCgroup() error {
	for _, dir := range append(b.cgroups(), b.partsCgroup()) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the testbed's cgroup: %w", err)
		}
		weights := podWeights
		if dir == b.partsCgroup() {
			weights = partWeights
		}
		for file, weight := range weights {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(weight), 0o644); err != nil {
				return fmt.Errorf("giving the testbed's cgroup its weight: %w", err)
			}
		}
		// A cpuset of version 1 starts empty, and then accepts no process.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			all, err := os.ReadFile(filepath.Join(dir, "..", file))
			if err != nil || !strings.Contains(dir, "cpuset") {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), all, 0o644); err != nil {
				return fmt.Errorf("making the testbed's cgroup: %w", err)
			}
		}
	}
	return nil
}

// weigh moves a part's process to the testbed's own cgroup. The reaper, which removes that cgroup, stays outside.
func (b *Bed) weigh(part Part, pid int) error {
	file := filepath.Join(b.partsCgroup(), "cgroup.procs")
	if _, err := os.Stat(file); err != nil || part == reaper {
		return nil
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0o644); err != nil {
		return fmt.Errorf("giving %s its weight: %w", part, err)
	}
	return nil
}
