package controller

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher/sleep"
)

// cancelledState matches the State of sacct of a job that was cancelled: "CANCELLED by 1001" (sacct(1), JOB STATE CODES).
var cancelledState = regexp.MustCompile(`^CANCELLED by (\d+)$`)

const (
	cancelledTime  = 10 * time.Second // sacct waits for a slurmdbd that does not answer
	cancelledTries = 3                // the controller sends the state to slurmdbd after it shows it itself
	cancelledPause = time.Second
)

// CancelledBy is the name of the user who cancelled a job; "" if accounting does not know, as at sites that have none.
func (c Commands) CancelledBy(ctx context.Context, id int) string {
	ctx, cancel := context.WithTimeout(ctx, cancelledTime)
	defer cancel()
	for try := range cancelledTries {
		if try > 0 && !sleep.For(ctx, cancelledPause) {
			return ""
		}
		out, err := Run(ctx, c.Runner, c.clean("sacct", "--noheader", "--parsable2", "--allocations", "--jobs="+strconv.Itoa(id), "--format=State")...)
		if err != nil {
			return ""
		}
		uid, late := cancellingUser(out)
		if uid != "" {
			return c.userName(ctx, uid)
		}
		if !late {
			return ""
		}
	}
	return ""
}

// cancellingUser is the number of the user who cancelled a job; late: accounting has the job and does not know its end yet. A heterogeneous job has a line for each part.
func cancellingUser(out string) (uid string, late bool) {
	for line := range strings.Lines(out) {
		state := strings.TrimSpace(line)
		if m := cancelledState.FindStringSubmatch(state); m != nil {
			return m[1], false
		}
		late = late || state == StatePending || state == StateRunning
	}
	return "", late
}

// userName is a user's name on the site, or "user 1001" where nobody has that number any more.
func (c Commands) userName(ctx context.Context, uid string) string {
	if out, err := Run(ctx, c.Runner, "id", "-nu", uid); err == nil && strings.TrimSpace(out) != "" {
		return strings.TrimSpace(out)
	}
	return "user " + uid
}
