package advise

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
)

// TestEachRowOfTheDecisionGuide: the answer for each row of the decision guide that this project began with. Its rows of Ray on k3s leave the gang scheduler out although the guide's own
// rule requires one: they keep the control plane, get the scheduler, and the answer says so.
func TestEachRowOfTheDecisionGuide(t *testing.T) {
	file, err := os.Open("testdata/decision-matrix.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) != 257 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	contradictions := 0
	for _, row := range rows[1:] {
		nodes, err := strconv.Atoi(row[0])
		if err != nil {
			t.Fatal(err)
		}
		yes := func(i int) bool { return row[i] == "true" }
		a := For(Needs{Nodes: nodes, TightlyCoupled: yes(1), BareMetal: yes(2), LongLivedServices: yes(3), MultiTenant: yes(4), PythonNative: yes(5), Edge: yes(6)})
		addon, gang := row[8], yes(10)
		if gang && !strings.Contains(addon, "REQUIRED") {
			contradictions++
			addon = gangs + " + " + addon
			if !strings.Contains(strings.Join(a.Reasons, "\n"), "against its own rule") {
				t.Errorf("%v: the contradiction is not named: %q", row, a.Reasons)
			}
		}
		if got, want := fmt.Sprint(a.Primary, "|", a.Addon, "|", a.Hybrid, "|", a.GangRequired), fmt.Sprint(row[7], "|", addon, "|", row[9], "|", gang); got != want {
			t.Errorf("%v: %s, want %s", row, got, want)
		}
	}
	if contradictions != 12 {
		t.Errorf("%d rows contradict the rule, not 12", contradictions)
	}
}

// TestOtherSizes: what the guide's table has no row for is answered by the same rules.
func TestOtherSizes(t *testing.T) {
	for _, nodes := range []int{3, 5, 100} {
		if a := For(Needs{Nodes: nodes, TightlyCoupled: true, BareMetal: true}); a.Primary != slurm || a.Launcher != "slurm" || a.GangRequired {
			t.Errorf("%d nodes on bare metal: %+v", nodes, a)
		}
		if a := For(Needs{Nodes: nodes, TightlyCoupled: true, PythonNative: true}); a.Primary != ray || a.Launcher != "kuberay" || !a.GangRequired {
			t.Errorf("%d nodes of a Python pipeline: %+v", nodes, a)
		}
	}
}

// eachNeed calls do with every combination of needs.
func eachNeed(do func(Needs)) {
	for i := range 1 << 6 {
		has := func(bit int) bool { return i>>bit&1 == 1 }
		for _, nodes := range []int{1, 2, 100} {
			do(Needs{nodes, has(0), has(1), has(2), has(3), has(4), has(5)})
		}
	}
}

// TestClusterFiles: each file that is proposed is a valid one.
func TestClusterFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	eachNeed(func(n Needs) {
		a := For(n)
		if err := a.write(wishOf(&a, 4), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := spec.Decode(strings.NewReader(a.ClusterFile), "rayctl.yaml"); err != nil {
			t.Errorf("%+v: %v in\n%s", a.Needs, err, a.ClusterFile)
		}
	})
}

// TestReasonsAgreeWithTheLauncher: one machine at the edge that nobody shares gets the launcher local, and only then a reason speaks of it.
func TestReasonsAgreeWithTheLauncher(t *testing.T) {
	eachNeed(func(n Needs) {
		a := For(n)
		says := strings.Contains(strings.Join(a.Reasons, "\n"), "the launcher local")
		if is := a.Launcher == "local"; is != says || is != (n.Edge && n.Nodes == 1 && !n.MultiTenant) {
			t.Errorf("%+v: launcher %s, because %q", n, a.Launcher, a.Reasons)
		}
	})
}
