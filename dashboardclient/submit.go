package dashboardclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"

	"github.com/rayctl/rayctl/launcher/sleep"
)

// SubmitRequest describes a job. Entrypoint is required.
type SubmitRequest struct {
	// Entrypoint is a shell command, run by sh on the head's node (or where the entrypoint resources are).
	Entrypoint string
	// SubmissionID names the job. Empty: SubmitJob makes one ("raysubmit_" and random letters).
	SubmissionID string
	// Nonce identifies this submission across repetitions: an existing job with SubmissionID and the same nonce is
	// the same submission. Empty: a random one, so that only this call's own retries are recognised.
	Nonce string
	// RuntimeEnv is Ray's runtime environment: working_dir and py_modules as URIs, env_vars, pip and so on. No secrets: Ray shows and logs it.
	RuntimeEnv map[string]any
	// Metadata is shown with the job.
	Metadata map[string]string
	// EntrypointCPUs, EntrypointGPUs, EntrypointMemory (bytes) and EntrypointResources are reserved for the driver process. Each of
	// them may place the driver on another node than the head.
	EntrypointCPUs, EntrypointGPUs float64
	EntrypointMemory               int64
	EntrypointResources            map[string]float64
	// EntrypointLabels are required labels of the driver's node, in the syntax of Ray's label selectors ("!in(a,b)"). Versions
	// before 2.49 have none: ErrUnsupported.
	EntrypointLabels map[string]string
	// Reserves is all of what is reserved, in words, for Job.WaitsFor: Ray's record of a job has no amounts.
	Reserves string `json:"-"` // it says nothing that is not above
}

// Metadata keys of rayctl's own.
const (
	MetadataNonce    = "rayctl.nonce"    // SubmitRequest.Nonce
	MetadataReserves = "rayctl.reserves" // SubmitRequest.Reserves
)

// submitBody is the form of POST /api/jobs/. Unset fields are left out: older versions refuse unknown ones.
type submitBody struct {
	Entrypoint   string             `json:"entrypoint"`
	SubmissionID string             `json:"submission_id"`
	RuntimeEnv   map[string]any     `json:"runtime_env,omitempty"`
	Metadata     map[string]string  `json:"metadata"`
	CPUs         float64            `json:"entrypoint_num_cpus,omitempty"`
	GPUs         float64            `json:"entrypoint_num_gpus,omitempty"`
	Memory       int64              `json:"entrypoint_memory,omitempty"`
	Resources    map[string]float64 `json:"entrypoint_resources,omitempty"`
	Labels       map[string]string  `json:"entrypoint_label_selector,omitempty"`
}

// SubmitJob submits a job and returns its submission id. The driver runs at most once, even if answers are lost: after a POST
// that was cut or answered with an error, SubmitJob gets the job and compares the nonce. An id that belongs to
// another job gives ErrConflict.
func (c *Client) SubmitJob(ctx context.Context, req SubmitRequest) (string, error) {
	body, err := req.body()
	if err != nil {
		return "", err
	}
	s := submission{client: c, body: body, doing: "submit job " + body.SubmissionID}
	for attempt := 0; ; attempt++ {
		done, err := s.try(ctx)
		if done {
			return body.SubmissionID, err
		}
		if attempt >= c.config.Retry.Max {
			return "", err
		}
		c.config.Logger.Warn("submitting again", "job", body.SubmissionID, "cause", err)
		if !sleep.For(ctx, c.backoff(attempt)) {
			return "", fmt.Errorf("%s: %w", s.doing, ctx.Err())
		}
	}
}

// NewSubmissionID is the id of a job that the user does not name, in Ray's own form.
func NewSubmissionID() string { return "raysubmit_" + rand.Text()[:16] }

// CheckSubmissionID refuses ids that Ray accepts but cannot look up afterwards.
func CheckSubmissionID(id string) error {
	if strings.ContainsAny(id, "/?#%\x00") {
		return fmt.Errorf("the submission id %q holds a character that URLs cannot: use letters, digits, - and _", id)
	}
	return nil
}

// body checks the request and completes it.
func (r SubmitRequest) body() (submitBody, error) {
	if strings.TrimSpace(r.Entrypoint) == "" { // Ray would accept it
		return submitBody{}, errors.New("submit a job: the entrypoint is empty: give the command to run")
	}
	if r.SubmissionID == "" {
		r.SubmissionID = NewSubmissionID()
	}
	if err := CheckSubmissionID(r.SubmissionID); err != nil {
		return submitBody{}, fmt.Errorf("submit a job: %w", err)
	}
	if r.Nonce == "" {
		r.Nonce = rand.Text()
	}
	metadata := map[string]string{}
	maps.Copy(metadata, r.Metadata)
	metadata[MetadataNonce] = r.Nonce
	if r.Reserves != "" {
		metadata[MetadataReserves] = r.Reserves
	}
	return submitBody{
		Entrypoint: r.Entrypoint, SubmissionID: r.SubmissionID, RuntimeEnv: r.RuntimeEnv, Metadata: metadata,
		CPUs: r.EntrypointCPUs, GPUs: r.EntrypointGPUs, Memory: r.EntrypointMemory, Resources: r.EntrypointResources,
		Labels: r.EntrypointLabels,
	}, nil
}

// submission is one SubmitJob in progress.
type submission struct {
	client *Client
	body   submitBody
	doing  string
}

// try posts the job once. done is false if the job is not known to exist and another POST may help. That is safe at any time: Ray stores a
// job under its id with "add if absent" before it starts anything, so that only one of several POSTs can run.
func (s submission) try(ctx context.Context) (done bool, err error) {
	posted := s.client.call(ctx, request{
		doing: s.doing, method: http.MethodPost, path: []string{"api", "jobs/"}, body: s.body, once: true,
	}, nil)
	if posted == nil || !ambiguous(posted) || ctx.Err() != nil {
		return true, s.client.lacking(ctx, posted)
	}
	job, err := s.client.getJob(ctx, request{once: true}, s.body.SubmissionID) // if this fails, the next POST finds out
	switch {
	case errors.Is(err, ErrNotFound):
		return refused(posted), s.client.lacking(ctx, posted)
	case err != nil:
		return errors.Is(err, ErrUnauthorized), posted
	case job.Metadata[MetadataNonce] != s.body.Metadata[MetadataNonce]:
		return true, &APIError{Doing: s.doing, Status: http.StatusConflict, kind: ErrConflict,
			Message: fmt.Sprintf("the id belongs to another job (%s, %q): choose another", job.Status, shorten(job.Entrypoint, 60))}
	}
	return true, nil
}

// ambiguous reports whether the job may exist despite the error.
func ambiguous(err error) bool {
	var answered *APIError
	return errors.Is(err, ErrUnreachable) || errors.As(err, &answered) && answered.Status >= 500
}

// unknownField matches the error of an older Ray about an unknown field of a submission, in JobSubmitRequest(**json).
var unknownField = regexp.MustCompile(`unexpected keyword argument '(\w+)'`)

// lacking turns an error about an unknown field into an UnsupportedError.
func (c *Client) lacking(ctx context.Context, err error) error {
	var answered *APIError
	if !errors.As(err, &answered) {
		return err
	}
	field := unknownField.FindStringSubmatch(answered.Message)
	if field == nil {
		return err
	}
	version, versionErr := c.knownVersion(ctx)
	if versionErr != nil {
		return err
	}
	return fmt.Errorf("%s: %w", answered.Doing, &UnsupportedError{Feature: field[1] + " for jobs", RayVersion: version.RayVersion})
}

// refused reports whether Ray rejected the request itself (a traceback that ends in an exception about
// the request), as opposed to a head that is not ready yet.
func refused(err error) bool {
	var answered *APIError
	return errors.As(err, &answered) && (answered.exception == "ValueError" || answered.exception == "TypeError")
}
