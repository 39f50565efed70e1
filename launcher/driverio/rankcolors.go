package driverio

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
)

// RankColors colours the numbers of ranks in the output of a command that runs on every node, for a terminal: each rank has a colour, and many ranks share one.
// It passes every byte on at once.
type RankColors struct {
	w      io.Writer
	inLine bool // the last Write ended within a line
}

// NewRankColors writes to w.
func NewRankColors(w io.Writer) *RankColors { return &RankColors{w: w} }

var (
	rankNumber = regexp.MustCompile(`^\[rank ([0-9]{1,9})\][ +]`)
	rankColors = []string{"36", "33", "32", "35", "34", "96", "93", "92", "95", "94"} // without red, the colour of failures
)

func (c *RankColors) Write(p []byte) (int, error) {
	var out bytes.Buffer
	for line := range bytes.Lines(p) {
		if found := rankNumber.FindSubmatch(line); found != nil && !c.inLine {
			number, _ := strconv.Atoi(string(found[1])) // at most nine digits
			prefix := line[:len(found[0])-1]
			out.WriteString("\x1b[" + rankColors[number%len(rankColors)] + "m")
			out.Write(prefix)
			out.WriteString("\x1b[0m")
			line = line[len(prefix):]
		}
		out.Write(line)
		c.inLine = !bytes.HasSuffix(line, []byte("\n"))
	}
	if _, err := c.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}
