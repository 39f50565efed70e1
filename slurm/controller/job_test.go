package controller

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/slurm/script"
)

func TestParseJSONOfRealVersions(t *testing.T) {
	for _, version := range []string{"24.11.5", "26.05.5"} {
		b, err := os.ReadFile("testdata/squeue-" + version + ".json")
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := parseJSON(b)
		if err != nil || len(jobs) != 1 {
			t.Fatalf("%s: %v, %v", version, jobs, err)
		}
		j := jobs[0]
		if j.ID != 4 || j.State != StateRunning || j.NodeList != "node[1-2]" || j.NodeCount != 2 || j.Comment != `a "b"` || j.Reason != "" || j.Start.IsZero() {
			t.Errorf("%s: %+v", version, j)
		}
	}
}

func TestParseJSONForms(t *testing.T) {
	for name, text := range map[string]string{
		"22.05": `{"jobs":[{"job_id":7,"job_state":"FAILED","exit_code":768,"start_time":1700000000,"state_reason":"NonZeroExitCode"}]}`,
		"23.02": `{"jobs":[{"job_id":7,"job_state":"FAILED","exit_code":{"set":true,"infinite":false,"number":768},"start_time":1700000000,"state_reason":"NonZeroExitCode"}]}`,
		"24.11": `{"jobs":[{"job_id":7,"job_state":["FAILED"],"exit_code":{"status":["ERROR"],"return_code":{"set":true,"number":3}},"start_time":{"set":true,"number":1700000000},"state_reason":"NonZeroExitCode"}]}`,
	} {
		jobs, err := parseJSON([]byte(text))
		want := []Job{{ID: 7, State: StateFailed, ExitCode: 3, Reason: "NonZeroExitCode", Start: time.Unix(1700000000, 0).UTC()}}
		if err != nil || !cmp.Equal(jobs, want) {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(want, jobs))
		}
	}
	if _, err := parseJSON([]byte(`{"jobs":[],"errors":[{"description":"Unable to query","error":"connect failure"}]}`)); err == nil || !strings.Contains(err.Error(), "connect failure") {
		t.Errorf("an answer that is an error: %v", err)
	}
}

func TestFlagsOfState(t *testing.T) {
	var j Job
	j.setState([]string{"CANCELLED", "COMPLETING"})
	if j.State != StateCancelled || !j.Has("COMPLETING") || j.Ended() {
		t.Errorf("%+v: a completing job still holds nodes", j)
	}
	for text, want := range map[string]string{"COMPLETING": StateCompleted, "CONFIGURING": StateRunning, "STOPPED": StateRunning, "SIGNALING": StateRunning,
		"RESIZING": StateRunning, "REQUEUE_HOLD": StatePending, "SPECIAL_EXIT": StatePending, "RESV_DEL_HOLD": StatePending, "PENDING RESV_DEL_HOLD": StatePending} {
		var j Job
		if j.setState(strings.Fields(text)); j.State != want || j.Ended() || j.Flags == nil {
			t.Errorf("%s: %+v", text, j)
		}
	}
}

func TestParseText(t *testing.T) {
	line := recordSeparator + strings.Join([]string{"12", "11+1", "PENDING", "Resources", "main", "", "2", "n/a", "1700000000", "N/A", "N/A", "me", "/runs/c", "c-1", `rayctl "x" $(id)`}, unitSeparator) + "\n"
	// A job of another program whose name has a line break, and one that somebody wrote separators into.
	other := recordSeparator + strings.Join([]string{"13", "13", "RUNNING", "None", "main", "n1", "1", "n1", "1", "2", "N/A", "me", "/", "two\nlines", "a\nb"}, unitSeparator) + "\n"
	if jobs, err := parseText(other + line + recordSeparator + "12" + unitSeparator + "x\n"); err != nil || len(jobs) != 2 || jobs[0].Name != "two\nlines" || jobs[0].Comment != "a\nb" || jobs[1].ID != 12 {
		t.Errorf("%v, %+v", err, jobs)
	}
	if jobs, err := parseText(""); err != nil || len(jobs) > 0 {
		t.Errorf("no jobs: %v, %+v", err, jobs)
	}
	jobs, err := parseText(line)
	want := []Job{{ID: 12, HetJobID: 11, HetOffset: 1, State: StatePending, Reason: "Resources", Partition: "main", NodeCount: 2, User: "me", WorkDir: "/runs/c", Name: "c-1", Comment: `rayctl "x" $(id)`, Submit: time.Unix(1700000000, 0).UTC()}}
	if err != nil || !cmp.Equal(jobs, want) {
		t.Errorf("%v\n%s", err, cmp.Diff(want, jobs))
	}
	if _, err := parseText("only one field\n"); err == nil {
		t.Error("a line of another form was taken")
	}
}

func TestExplain(t *testing.T) {
	for reason, want := range map[string]string{
		"Resources":         "in use",
		"QOSMaxGRESPerUser": "QOS",
		"AssocGrpCPULimit":  "account",
		"ReqNodeNotAvail, UnavailableNodes:node[1-2]": "node[1-2]",
		"launch failed requeued held":                 "launch failed",
		"SomethingNew":                                "SomethingNew",
		"":                                            "waits to be scheduled",
	} {
		if got := Explain(Job{Reason: reason}); !strings.Contains(got.Message, want) {
			t.Errorf("%q: %+v", reason, got)
		}
	}
}

// TestPartitions parses the partitions as commands and slurmrestd of real versions print them.
func TestPartitions(t *testing.T) {
	text := "CLUSTER: other\n" +
		"PartitionName=main AllowGroups=ALL Default=YES QoS=N/A MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 Nodes=node[1-4] State=UP TotalCPUs=8 TotalNodes=4 SelectTypeParameters=NONE\n" +
		"PartitionName=short Default=NO MaxNodes=2 MaxTime=1-02:05:00 MinNodes=0 Nodes=node[1-4] TotalNodes=4\n"
	got, err := parsePartitions(text)
	want := []script.Partition{{Name: "main", Default: true, Nodes: 4}, {Name: "short", Nodes: 2, Time: 26*time.Hour + 5*time.Minute}}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("scontrol: %v\n%s", err, cmp.Diff(want, got))
	}
	for version, text := range map[string]string{
		"22.05": `{"partitions":[{"flags":["default"],"name":"main","maximum_nodes_per_job":-1,"max_time_limit":-1,"nodes":"node[1-4]","total_nodes":4},
			{"flags":[],"name":"short","maximum_nodes_per_job":2,"max_time_limit":1565,"nodes":"node[1-4]","total_nodes":4}]}`,
		"24.11": `{"partitions":[{"name":"main","nodes":{"configured":"node[1-4]","total":4},"maximums":{"nodes":{"set":false,"infinite":true,"number":0},"time":{"set":false,"infinite":true,"number":0}}},
			{"name":"short","nodes":{"configured":"node[1-4]","total":4},"maximums":{"nodes":{"set":true,"infinite":false,"number":2},"time":{"set":true,"infinite":false,"number":1565}}}]}`,
	} {
		got, err := parseJSONPartitions([]byte(text))
		want[0].Default = version == "22.05"
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("slurmrestd of %s: %v\n%s", version, err, cmp.Diff(want, got))
		}
	}
	for _, text := range []string{"", "5", "1:2", "x-00:00:00", "aa:00:00"} {
		if d, err := slurmDuration(text); err == nil {
			t.Errorf("%q was taken for %s", text, d)
		}
	}
}
