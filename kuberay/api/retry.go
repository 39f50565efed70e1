package api

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher/sleep"
)

// outage is how long an API server that is restarted may be away before an end, or a commit, fails.
const outage = 2 * time.Minute

// Patiently repeats a call, which may be made twice, that failed because the API server did not answer.
func Patiently(ctx context.Context, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, outage)
	defer cancel()
	for {
		err := call()
		if err == nil || !Passes(err) || !sleep.For(ctx, time.Second) {
			return err
		}
	}
}
