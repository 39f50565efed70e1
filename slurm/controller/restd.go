package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Jobs implements Controller.
func (r *REST) Jobs(ctx context.Context) ([]Job, error) {
	t, err := readToken(r.tokenFile)
	if err != nil {
		return nil, err
	}
	all, err := r.Everybodys(ctx)
	return slices.DeleteFunc(all, func(j Job) bool { return j.User != t.user }), err
}

// Everybodys also has jobs that have ended: slurmrestd cannot be asked for some.
func (r *REST) Everybodys(ctx context.Context) ([]Job, error) {
	answer, err := r.list(ctx, "/jobs")
	if err != nil {
		return nil, err
	}
	return parseJSON(answer)
}

// list requests all objects of a kind, such as /jobs.
func (r *REST) list(ctx context.Context, kind string) ([]byte, error) {
	version, err := r.find(ctx)
	if err != nil {
		return nil, err
	}
	return r.call(ctx, http.MethodGet, kind+slash(version), nil)
}

// Submit implements Controller.
func (r *REST) Submit(ctx context.Context, b Batch) (int, error) {
	version, err := r.find(ctx)
	if err != nil {
		return 0, err
	}
	request, err := b.request(version)
	if err != nil {
		return 0, err
	}
	answer, err := r.call(ctx, http.MethodPost, "/job/submit", request)
	if err != nil {
		return 0, err
	}
	var reply struct {
		ID number `json:"job_id"`
	}
	if err := json.Unmarshal(answer, &reply); err != nil || reply.ID == 0 {
		return 0, &CommandError{name: "slurmrestd", Said: "slurmrestd's answer has no job id", Err: errors.Join(errAway, err)}
	}
	return int(reply.ID), nil
}

// Cancel implements Controller.
func (r *REST) Cancel(ctx context.Context, id int, onlyWaiting bool) error {
	version, err := r.find(ctx)
	if err != nil {
		return err
	}
	switch {
	case onlyWaiting && version == v38: // it cannot be asked for that; a job that begins between the two is cancelled as well
		var begun bool
		if begun, err = r.begun(ctx, id); err == nil && !begun {
			_, err = r.call(ctx, http.MethodDelete, "/job/"+strconv.Itoa(id), nil)
		}
	case onlyWaiting || IsFederated(id) && version != v38: // ids of a federation are invalid in a path (slurm/src/slurmrestd/plugins/openapi/slurmctld/jobs.c)
		which := map[string]any{"jobs": []string{strconv.Itoa(id)}}
		if onlyWaiting {
			which["job_state"] = []string{StatePending}
		}
		var answer []byte
		answer, err = r.call(ctx, http.MethodDelete, "/jobs/", which)
		if err == nil {
			err = killed(answer)
		}
	default:
		var answer []byte
		if answer, err = r.call(ctx, http.MethodDelete, "/job/"+strconv.Itoa(id), nil); err == nil {
			err = killed(answer)
		}
	}
	if err != nil && strings.Contains(err.Error(), "Invalid job id") {
		return nil
	}
	return err
}

// killed reads the answer of the newer versions, which is 200 also where a job could not be ended.
func killed(answer []byte) error {
	var doc struct {
		Status []struct {
			Error struct {
				String string `json:"string"`
				Code   int    `json:"code"`
			} `json:"error"`
		} `json:"status"`
	}
	if json.Unmarshal(answer, &doc) != nil {
		return nil // 22.05 reports nothing
	}
	for _, s := range doc.Status {
		switch s.Error.Code {
		case 0, errnoInvalidJob, errnoFinished, errnoNotWaiting:
		default:
			return &CommandError{name: "slurmrestd", Said: s.Error.String, Err: fmt.Errorf("error %d", s.Error.Code)}
		}
	}
	return nil
}

// Extend implements Controller.
func (r *REST) Extend(ctx context.Context, id int, limit string) error {
	version, err := r.find(ctx)
	if err != nil {
		return err
	}
	if version == v38 {
		return errors.New("slurmrestd of Slurm 22.05 cannot do that")
	}
	value := map[string]any{"set": true, "infinite": true}
	if minutes, err := strconv.Atoi(limit); err == nil {
		value = set(minutes)
	}
	_, err = r.call(ctx, http.MethodPost, "/job/"+strconv.Itoa(id), map[string]any{"time_limit": value})
	return err
}

func (r *REST) begun(ctx context.Context, id int) (bool, error) {
	answer, err := r.call(ctx, http.MethodGet, "/job/"+strconv.Itoa(id), nil)
	if err != nil {
		return false, err
	}
	jobs, err := parseJSON(bytes.TrimSpace(answer))
	return len(jobs) > 0 && jobs[0].State != StatePending, err
}

// Version implements Controller.
func (r *REST) Version(ctx context.Context) (string, error) {
	api, err := r.find(ctx)
	if err != nil {
		return "", err
	}
	answer, err := r.call(ctx, http.MethodGet, "/ping"+slash(api), nil)
	var doc struct {
		Meta struct { // Slurm in 22.05, slurm later: names are compared without case
			Slurm struct{ Release string }
		}
		Pings []struct {
			Ping, Pinged string
			Responding   *bool
		}
	}
	if err == nil {
		err = json.Unmarshal(answer, &doc)
	}
	for _, p := range doc.Pings {
		if p.Ping == "UP" || p.Pinged == "UP" || p.Responding != nil && *p.Responding {
			return "Slurm " + doc.Meta.Slurm.Release, nil
		}
	}
	if err == nil {
		err = &CommandError{name: "slurmrestd", Said: "Unable to contact slurm controller", Err: errAway}
	}
	return "", err
}

// Federation cannot be asked for here.
func (r *REST) Federation(context.Context) (Federation, error) { return Federation{}, nil }

// PlannedStart cannot be asked for here.
func (r *REST) PlannedStart(context.Context, Batch) (time.Time, error) { return time.Time{}, nil }
