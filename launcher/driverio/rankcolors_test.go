package driverio_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/driverio"
)

// TestRankColors: ranks' numbers are coloured where records begin and nowhere else, and no byte is lost or kept back, however the stream is cut.
func TestRankColors(t *testing.T) {
	const stream = "[rank 0] a [rank 1] \x00\n[rank 10]+b\n[rank 11] \nrank 1 on node w-0 exited with 7\n[rank x] c\n[rank 1"
	const want = "\x1b[36m[rank 0]\x1b[0m a [rank 1] \x00\n\x1b[36m[rank 10]\x1b[0m+b\n\x1b[33m[rank 11]\x1b[0m \nrank 1 on node w-0 exited with 7\n[rank x] c\n[rank 1"
	escapes := regexp.MustCompile("\x1b\\[[0-9]+m")
	for size := 1; size <= len(stream); size++ {
		var got bytes.Buffer
		c := driverio.NewRankColors(&got)
		for rest := stream; rest != ""; rest = rest[min(size, len(rest)):] {
			before := len(escapes.ReplaceAllString(got.String(), ""))
			piece := rest[:min(size, len(rest))]
			if n, err := c.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
			if shown := escapes.ReplaceAllString(got.String(), "")[before:]; shown != piece {
				t.Fatalf("pieces of %d: %q shown as %q", size, piece, shown)
			}
		}
		if size == len(stream) && got.String() != want {
			t.Errorf("%q", &got)
		}
		if strings.Count(got.String(), "\x1b") > strings.Count(want, "\x1b") {
			t.Errorf("pieces of %d: %q", size, &got)
		}
	}
}
