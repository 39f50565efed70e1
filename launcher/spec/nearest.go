package spec

import "strings"

// Nearest returns the candidate that s was most likely meant to be, or "" if none is near: at most a third of its letters differ, and one more of a candidate that
// begins with the same four.
// Case, dashes and underscores are ignored.
func Nearest(s string, candidates []string) string {
	fold := func(s string) string { return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) }
	want, best := fold(s), ""
	farthest := max(1, len([]rune(want))/3)
	bestDistance := farthest + 2
	for _, c := range candidates {
		d := editDistance([]rune(want), []rune(fold(c)))
		if alike := len(want) >= 4 && strings.HasPrefix(fold(c), want[:4]); d < bestDistance && (d <= farthest || alike) {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance is the number of letters to insert, delete, replace or swap with their neighbour (optimal string alignment).
func editDistance(a, b []rune) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
