package onemachine

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestSalvage: the output of a run whose keeper was killed is whole, however long, where its node has saved the rest.
func TestSalvage(t *testing.T) {
	log := bytes.Repeat([]byte("a line of many\n"), 300_000) // more than a supervisor keeps of Ray's logs
	for name, test := range map[string]struct {
		copied []byte
		rest   string // its name's end; "" none
		begin  int
		whole  bool
	}{
		"from the copy's end on":  {log[:1000], ".from-1000", 1000, true},
		"all":                     {nil, ".from-0", 0, true},
		"nothing more":            {log, ".from-" + strconv.Itoa(len(log)), len(log), true},
		"the copy has a hole":     {log[:100:100], ".whole", 0, true},
		"the copy grew meanwhile": {log[:2000], ".from-1000", 1000, true},
		"begins behind the copy":  {log[:10], ".from-1000", 1000, false},
		"nothing was saved":       {log[:10], "", 0, false},
	} {
		salvaged := func(t *testing.T, lead []byte) { // what job.prepare printed
			job := &runstate.Job{LogFile: "job-driver-n-1.log", State: runstate.JobRunning, LogBegin: int64(len(lead))}
			r := &runDir{Dir: t.TempDir()}
			node := r.Path(keeper.NodesDir, "head-0")
			if err := os.MkdirAll(node, 0o700); err != nil {
				t.Fatal(err)
			}
			files := map[string][]byte{}
			if test.copied != nil || lead != nil {
				files[r.Path(keeper.DriverLog)] = slices.Concat(lead, test.copied)
			}
			if test.rest != "" {
				files[filepath.Join(node, job.LogFile+test.rest)] = log[test.begin:]
			}
			for path, content := range files {
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := r.salvage(job)
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Concat(lead, test.copied)
			if test.whole {
				want = slices.Concat(lead, log)
			}
			saved, _ := os.ReadFile(r.Path(keeper.DriverLog)) // not there: empty
			if !bytes.Equal(saved, want) || got.Bytes != int64(len(want)) || (len(got.Missing) == 0) != test.whole {
				t.Errorf("%d bytes saved, want %d; %+v", len(saved), len(want), got)
			}
			if again, err := r.salvage(job); err != nil || again.Bytes != got.Bytes || len(again.Missing) != len(got.Missing) {
				t.Errorf("asked again: %+v, %v", again, err)
			}
		}
		t.Run(name, func(t *testing.T) { salvaged(t, nil) })
		t.Run(name+", prepared", func(t *testing.T) { salvaged(t, []byte("prepared\n")) })
	}
}
