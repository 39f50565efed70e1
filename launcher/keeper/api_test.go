package keeper_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// The API refuses wrong tokens and invalid requests, and commits once.
func TestAPI(t *testing.T) {
	t.Parallel()
	r := newRig(t, "true", noHead).start(nil)
	r.eventually("the API is up", func() bool {
		s, err := r.dir.State()
		return err == nil && s.Keeper.URL != ""
	})
	ctx, c := context.Background(), r.client()
	s, err := c.State(ctx)
	r.must(err)
	stranger := keeper.NewClient(keeper.Endpoint{URL: s.Keeper.URL, Token: "wrong"})
	defer stranger.Close()
	for what, err := range map[string]error{
		"401 the keeper's token is missing or wrong": second(stranger.State(ctx)),
		"404 packages are PUT":                       c.PutPackage(ctx, "../orders.json", 1, strings.NewReader("x")),
		"400 idle is not a number of seconds":        second(c.Extend(ctx, keeper.Extend{Idle: ptr(-1.0)})),
		"409 a run has no idle limit":                second(c.Extend(ctx, keeper.Extend{Idle: ptr(60.0)})),
	} {
		status, text, _ := strings.Cut(what, " ")
		var refused *keeper.Error
		if !errors.As(err, &refused) || fmt.Sprint(refused.Status) != status || !strings.Contains(refused.Message, text) {
			t.Errorf("want %s, got %v", what, err)
		}
	}
	for path, bodies := range map[string][]string{
		"/v1/leaving": {`{}`, `{"seconds": true}`, `{"seconds": NaN}`, `{"seconds": 1e999}`, `{"seconds": 1, "by": 1}`, `{"seconds": ` + strings.Repeat("9", 400) + `}`},
		"/v1/end":     {`{"cause": 1}`, `{"message": []}`},
		"/v1/change": {
			`{}`, `{"specHash": "x", "lifetime": {"max": "1h"}}`, `{"specHash": "x", "lifetime": {"max": -1}}`, `{"specHash": "x", "lifetime": {}, "scaling": {"idle": []}}`,
			`{"specHash": "x", "lifetime": {}, "groups": {"w": [1, 2]}}`, `{"specHash": "x", "lifetime": {}, "groups": {"w": [1, 2, true]}}`, `{"specHash": "x", "lifetime": {}, "groups": []}`,
		},
		"/v1/gpus": {`{}`, `{"node": "a", "begun": "b", "message": "", "count": 1, "seconds": Infinity, "busySeconds": 0, "idle": 0}`},
	} {
		for _, body := range bodies {
			if status := r.post(s, path, body); status != http.StatusBadRequest {
				t.Errorf("POST %s %.80s: %d", path, body, status)
			}
		}
	}
	for _, name := range []string{"1.zip", "jax-0.6.0+cuda12-cp312-cp312-manylinux_2_28_x86_64.whl", "a-1!2.0-py3-none-any.whl"} {
		r.must(c.PutPackage(ctx, "package-"+name, 3, strings.NewReader("zip")))
	}
	commit := keeper.Commit{RuntimeEnv: json.RawMessage(`{}`)}
	s, err = c.Commit(ctx, commit)
	r.must(err)
	_, err = c.Commit(ctx, commit)
	r.must(err)
	if !s.Committed {
		r.state("committed", func(s *runstate.State) bool { return s.Committed })
	}
	commit.RuntimeEnv = json.RawMessage(`{"pip": ["x"]}`)
	var refused *keeper.Error
	if _, err := c.Commit(ctx, commit); !errors.As(err, &refused) || refused.Status != http.StatusConflict {
		t.Errorf("another commit: %v", err)
	}
	_, err = c.End(ctx, keeper.End{Cause: runstate.CauseDown, Now: true})
	r.must(err)
	if s := r.result(); s.Exit.Cause != runstate.CauseDown {
		t.Errorf("exit: %+v", s.Exit)
	}
}

func second[T any](_ T, err error) error { return err }

// post sends the keeper a body as it is, and returns the answer's status.
func (r *rig) post(s *runstate.State, path, body string) int {
	r.t.Helper()
	token, err := r.dir.Token()
	r.must(err)
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, s.Keeper.URL+path, strings.NewReader(body))
	r.must(err)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	r.must(err)
	defer response.Body.Close()
	return response.StatusCode
}
