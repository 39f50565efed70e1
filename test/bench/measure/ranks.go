package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Rank is a shell command that prints when it began, as drivers/actor.py does for an actor.
const Rank = `echo "up $(date +%s.%N)"`

// Ranks are as many as are measured.
const Ranks = 64

// RankNodes are the nodes that they run on.
const RankNodes = 4

const latest = 0.05 // seconds from a rank's print to its line on the screen

// measureRanks runs one process on each node (rayctl run --each-node): from Ready to the last of 64 ranks beside one actor's own start on a cluster of the same size, and the time
// from a rank's print to its line on the screen.
func measureRanks(ctx context.Context, b *Bench) ([]Row, error) {
	b.Head.Stop()
	dir, err := b.WorkingDir("actor.py", "clock.py")
	if err != nil {
		return nil, err
	}
	size := []string{"--workers", strconv.Itoa(RankNodes), "--cpus-per-worker", strconv.Itoa(Ranks / RankNodes)}
	var actor, ranks, late []float64
	side := func(to *[]float64, want int, args ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			receipt := filepath.Join(dir, "receipt.json")
			d, err := b.rayctlHere(ctx, append(append([]string{"--receipt", receipt}, size...), args...)...)
			if err != nil {
				return err
			}
			took, err := FromReady(receipt, d.Output.Data, want)
			*to = append(*to, took)
			return err
		}
	}
	err = b.Repeat(ctx, "ranks",
		side(&actor, 1, "--", b.Python, filepath.Join(dir, "actor.py")),
		side(&ranks, Ranks, "--each-node="+strconv.Itoa(Ranks/RankNodes), "--", "sh", "-c", Rank),
		func(ctx context.Context) error {
			d, err := b.rayctlHere(ctx, "--each-node", "--rank", "0", "--", b.Python, filepath.Join(dir, "clock.py"))
			if err != nil {
				return err
			}
			return AddLatency(&late)(d)
		})
	if err != nil {
		return nil, err
	}
	most := Median(actor) + 3
	return []Row{
		Compare(fmt.Sprintf("Ready to the last of %d ranks on %d nodes (one actor)", Ranks, RankNodes), Seconds, actor, ranks, most, "at most 3 s more: "+Seconds(most)),
		{What: "line printed by a rank to line shown, median", Rayctl: Figures(late, Seconds), Goal: "at most " + Seconds(latest), Met: Yes(Median(late) <= latest)},
	}, nil
}

// rayctlHere is `rayctl run` on this machine.
func (b *Bench) rayctlHere(ctx context.Context, args ...string) (*Done, error) {
	return b.Command(ctx, b.Environment(), b.Rayctl, append([]string{"run", "--launcher", "local", "--set", "ray.python=" + b.Python}, args...)...)
}

// FromReady is the seconds from the phase Ready in a receipt to the last of the lines "up TIME" in the output, which must be so many.
func FromReady(receipt string, output []byte, want int) (float64, error) {
	text, err := os.ReadFile(receipt)
	if err != nil {
		return 0, err
	}
	var r struct {
		Timeline []struct {
			At        time.Time
			Event, To string
		}
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return 0, err
	}
	last, err := LastUp(output, want)
	for _, e := range r.Timeline {
		if e.Event == "phase" && e.To == "Ready" {
			return last.Sub(e.At).Seconds(), err
		}
	}
	return 0, fmt.Errorf("the cluster was never ready: %s", text)
}

// LastUp is the last of the times in the lines "up TIME", which must be so many.
func LastUp(output []byte, want int) (last time.Time, err error) {
	found := 0
	for line := range bytes.Lines(output) {
		_, text, is := bytes.Cut(line, []byte("up "))
		if at, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64); is && err == nil {
			found++
			if up := time.UnixMicro(int64(at * 1e6)); up.After(last) {
				last = up
			}
		}
	}
	if found != want {
		return last, fmt.Errorf("%d processes began, not %d: %s", found, want, Tail(output))
	}
	return last, nil
}
