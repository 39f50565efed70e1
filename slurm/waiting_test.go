package slurm

import (
	"slices"
	"testing"
	"time"
)

// TestQuestionsWhileWaiting: a watcher that asks at the end of goodFor makes a new request. If it took the old answer as new enough, the end of a waiting job would be seen
// a minute late.
func TestQuestionsWhileWaiting(t *testing.T) {
	const delay = 50 * time.Millisecond // of the timer, and of the request before it
	var asked []int
	for answered := time.Second; len(asked) < 6; {
		asked = append(asked, int(answered.Seconds()))
		look := answered + goodFor(answered) + delay
		if look-answered < maxAge(look) {
			t.Fatalf("the answer of %s is used again %s later", answered, look-answered)
		}
		if early := look - time.Second; early-answered >= maxAge(early) {
			t.Errorf("a watcher that looks at %s does not share the answer of %s", early, answered)
		}
		answered = look
	}
	if want := []int{1, 13, 26, 52, 82, 112}; !slices.Equal(asked, want) {
		t.Errorf("the controller is asked after %v seconds, want %v", asked, want)
	}
}
