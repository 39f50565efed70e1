package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/needs"
)

// TestTorchrunTemplate: torch's own launcher on four nodes of a real cluster, whose gradients gloo adds up. PyPI has torch for Linux only with CUDA, so this is Debian's.
func TestTorchrunTemplate(t *testing.T) {
	u := exampleUser(t)
	needs.Program(t, "torchrun", "python3-torch")
	u.want(0, "init", "torchrun", "--dir", ".", "--set", "nodes=4")
	// The torchrun of Debian's torch 1.13 does not know its own default of these options in Python 3.11. So they say something of a second process of a node, which is not there.
	out := u.runExample("run", "--name", "torch", "--set", "local.packages=null", "--env", "PET_REDIRECTS=1:1", "--env", "PET_TEE=1:1").out
	fitted := regexp.MustCompile(`(?m)^\[rank (\d)\] rank (\d) of 4 fitted \[3\.0, 1\.0\]$`).FindAllStringSubmatch(out, -1)
	var ranks []string
	for _, found := range fitted {
		ranks = append(ranks, found[1]+found[2]) // rayctl's number and torch's
	}
	if slices.Sort(ranks); !slices.Equal(ranks, []string{"00", "11", "22", "33"}) {
		t.Errorf("%q of %s", ranks, tail(out))
	}
	rest := u.want(0, "logs", "torch", "--rank-files", "ranks").out
	for rank := range 4 {
		one := u.want(0, "logs", "torch", "--rank", strconv.Itoa(rank)).out
		file, err := os.ReadFile(filepath.Join(u.dir, "ranks", fmt.Sprintf("rank-%d.log", rank)))
		if err != nil || string(file) != one || !strings.Contains(one, fmt.Sprintf("rank %d of 4 fitted", rank)) || strings.Contains(rest, one) {
			t.Errorf("the file of rank %d: %q, %v; --rank shows %q, and beside the files is %q", rank, file, err, one, rest)
		}
	}
	contains(t, "files that are there", u.want(runstate.CodeSpec, "logs", "torch", "--rank-files", "ranks").err, "--rank-files: open ranks/rank-", "file exists")
	u.want(runstate.CodeUsage, "logs", "torch", "--rank-files", "other", "--rank", "0")
}

// TestMPITemplate: mpirun starts the processes of all nodes by the hostfile. Nodes of this machine are one host.
func TestMPITemplate(t *testing.T) {
	u := exampleUser(t)
	u.want(0, "init", "mpi", "--dir", ".", "--set", "nodes=2", "--set", "cpus=2")
	out := u.runExample("run", "--rank", "0", "--env", "OMPI_ALLOW_RUN_AS_ROOT=1", "--env", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1").out
	if out != "pi is 3.141593, by 4 processes\n" {
		t.Errorf("%q", out)
	}
}
