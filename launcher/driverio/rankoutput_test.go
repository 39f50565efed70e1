package driverio_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/driverio"
)

// TestRankOutput: one rank's bytes, however the stream is cut, and nothing of what others wrote.
func TestRankOutput(t *testing.T) {
	const stream = "note\n[rank 1] one\r\n[rank 11] other\n[rank 1]+tw\n[rank 1 x\n[rank 0] [rank 1] no\n[rank 1] o\x00\n[rank 1] \n[rank 1]+end\nrank 1 on node w-0 exited with 7\n"
	for _, c := range []struct {
		stream   string
		rank     int
		prepares bool
		want     string
	}{
		{stream, 1, false, "one\r\ntwo\x00\n\nend"},
		{stream, 11, false, "other\n"},
		{stream, 0, false, "[rank 1] no\n"},
		{stream, 2, false, ""},
		{"[rank 1] loads\n==> driver <== no\n==> driver <==\n" + stream, 1, true, "one\r\ntwo\x00\n\nend"},
	} {
		for size := 1; size < 40; size++ {
			var got strings.Builder
			o := driverio.NewRankOutput(&got, c.rank, c.prepares)
			for rest := []byte(c.stream); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if _, err := o.Write(rest[:min(size, len(rest))]); err != nil {
					t.Fatal(err)
				}
			}
			if got.String() != c.want {
				t.Fatalf("rank %d in pieces of %d bytes: %q, want %q", c.rank, size, &got, c.want)
			}
		}
	}
}

// TestOnNodes: the command is the user's part of the entrypoint, also below the line that enters a directory, and Ray finds nothing to expand in the variables.
func TestOnNodes(t *testing.T) {
	line, variables := driverio.OnNodes(driverio.Ranks{Command: "echo '$RANK'"}, map[string]string{"A": "b"})
	for _, entrypoint := range []string{line, driverio.InDirectory("/a b", line, true)} {
		if got := driverio.UserCommand(entrypoint); got != "echo '$RANK'" || !driverio.HasRanks(entrypoint) {
			t.Errorf("%q: %q", entrypoint, got)
		}
	}
	if driverio.HasRanks("echo '$RANK'") || variables["A"] != "b" {
		t.Errorf("%q", variables)
	}
	for name, value := range variables {
		if strings.ContainsAny(value, "$'\n") || len(value) > 120<<10 {
			t.Errorf("%s: %q", name, value)
		}
	}
}
