package driverio_test

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
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
			if o.Wrote() != (c.want != "") {
				t.Errorf("rank %d wrote: %v", c.rank, o.Wrote())
			}
			if got.String() != c.want {
				t.Fatalf("rank %d in pieces of %d bytes: %q, want %q", c.rank, size, &got, c.want)
			}
		}
	}
}

// TestRankFiles: the bytes of each rank are in its file, however the stream is cut, all else is elsewhere, and files that are there are not changed.
func TestRankFiles(t *testing.T) {
	const stream = "note\n[rank 1] one\r\n[rank 11] other\n[rank 1]+tw\n[rank 1 x\n[rank 0] [rank 1] no\n[rank 1] o\x00\n[rank 01] a\n[rank ]\n[rank 1]\n[rank 1]-\n" +
		"[rank 9999999999] b\n[rank 1]+end\nrank 1 on node w-0 exited with 7\n[rank"
	for size := 1; size <= len(stream); size++ {
		var others strings.Builder
		dir := filepath.Join(t.TempDir(), "new")
		o, err := driverio.NewRankFiles(dir, &others, false)
		for rest := stream; err == nil && len(rest) > 0; rest = rest[min(size, len(rest)):] {
			_, err = o.Write([]byte(rest[:min(size, len(rest))]))
		}
		if err := errors.Join(err, o.Close()); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{"others": others.String()}
		files, err := os.ReadDir(dir)
		for _, f := range files {
			data, readErr := os.ReadFile(filepath.Join(dir, f.Name()))
			got[f.Name()], err = string(data), errors.Join(err, readErr)
		}
		want := map[string]string{
			"others":     "note\n[rank 1 x\n[rank 01] a\n[rank ]\n[rank 1]\n[rank 1]-\n[rank 9999999999] b\nrank 1 on node w-0 exited with 7\n[rank",
			"rank-0.log": "[rank 1] no\n", "rank-1.log": "one\r\ntwo\x00\nend", "rank-11.log": "other\n",
		}
		if err != nil || !maps.Equal(got, want) {
			t.Fatalf("pieces of %d bytes: %v, %q", size, err, got)
		}
		again, err := driverio.NewRankFiles(dir, io.Discard, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again.Write([]byte("[rank 0] x\n")); !errors.Is(err, fs.ErrExist) {
			t.Fatalf("a file that is there: %v", err)
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
