package dashboardclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// ErrServeFailed means that an application could not be deployed, or became unhealthy.
var ErrServeFailed = errors.New("the application failed")

// servePoll is the pause between polls: Serve's own control loop runs every 0.1 s, and each answer costs the head some work.
const servePoll = 300 * time.Millisecond

// ServeWait returns once the named applications (none named: all, at least one) are RUNNING. As soon as one has failed it returns a sentence with the
// deployment and the cause (ErrServeFailed). report, if given, is called with every state seen.
func (c *Client) ServeWait(ctx context.Context, names []string, report func(*ServeStatus)) error {
	running := 0
	return c.pollServe(ctx, "wait for the Serve applications", func(status *ServeStatus) (bool, error) {
		if report != nil {
			report(status)
		}
		wanted := names
		if len(wanted) == 0 {
			wanted = slices.Sorted(maps.Keys(status.Applications))
		}
		ready, err := allRunning(status, wanted)
		if !ready || err != nil {
			running = 0
			return false, err
		}
		running++
		return running == 2, nil // just after an update Serve reports the old state for one turn of its control loop
	})
}

// ServeWaitGone returns once no application is left.
func (c *Client) ServeWaitGone(ctx context.Context) error {
	return c.pollServe(ctx, "wait for the Serve applications to end", func(status *ServeStatus) (bool, error) {
		return len(status.Applications) == 0, nil
	})
}

// pollServe polls until check is done. When ctx ends the error has the last state.
func (c *Client) pollServe(ctx context.Context, doing string, check func(*ServeStatus) (bool, error)) error {
	last := "no answer"
	err := poll(ctx, steady(servePoll), func() (bool, error) {
		status, err := c.GetServe(ctx)
		if errors.Is(err, ErrUnreachable) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		last = status.String()
		return check(status)
	})
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w; last seen: %s", doing, ctx.Err(), last)
	}
	return err
}

// allRunning checks the named applications.
func allRunning(status *ServeStatus, names []string) (bool, error) {
	ready := len(names) > 0
	for _, name := range names {
		app, exists := status.Applications[name]
		if !exists {
			ready = false
			continue
		}
		if app.Status == "DEPLOY_FAILED" || app.Status == "UNHEALTHY" {
			return false, fmt.Errorf("%w: %s is %s: %s", ErrServeFailed, name, app.Status, app.cause())
		}
		ready = ready && app.Status == "RUNNING"
	}
	return ready, nil
}

// cause names the failed deployment and the reason.
func (a ServeApplication) cause() string {
	for _, name := range slices.Sorted(maps.Keys(a.Deployments)) {
		deployment := a.Deployments[name]
		if deployment.Status == "UNHEALTHY" || deployment.Status == "DEPLOY_FAILED" {
			_, line := telling(deployment.Message)
			return fmt.Sprintf("deployment %s: %s", name, line)
		}
	}
	_, line := telling(a.Message)
	return line
}

// String is a line such as "app DEPLOYING (Model UPDATING)".
func (s *ServeStatus) String() string {
	if len(s.Applications) == 0 {
		return "no application"
	}
	line := ""
	for _, name := range slices.Sorted(maps.Keys(s.Applications)) {
		app := s.Applications[name]
		line += name + " " + app.Status
		for _, deployment := range slices.Sorted(maps.Keys(app.Deployments)) {
			line += fmt.Sprintf(" (%s %s)", deployment, app.Deployments[deployment].Status)
		}
		line += " "
	}
	return line[:len(line)-1]
}
