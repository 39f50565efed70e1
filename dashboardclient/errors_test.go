package dashboardclient

import "testing"

// TestSummarize has answers of real dashboards.
func TestSummarize(t *testing.T) {
	for text, want := range map[string]string{
		"Traceback (most recent call last):\n  File \"x\", line 1, in f\n    raise RuntimeError(f\"...\")\nRuntimeError: Request failed with status code 400: Traceback (most recent call last):\n" +
			"  File \"y\", line 504, in submit_job\n    raise ValueError(\nValueError: Job with submission_id j1 already exists. Please use a different submission_id.\n.\n": "Job with submission_id j1 already exists. Please use a different submission_id.",
		"aiohttp.web_exceptions.HTTPRequestEntityTooLarge: Request Entity Too Large":                                                                                                                                                  "aiohttp.web_exceptions.HTTPRequestEntityTooLarge: Request Entity Too Large",
		`{"result": false, "msg": "Given node id zzz is not available.", "data": {"result": null}}`:                                                                                                                                   "Given node id zzz is not available.",
		"x\npydantic.v1.error_wrappers.ValidationError: 1 validation error for ServeInstanceDetails\nproxy_location\n  value is not a valid enumeration member":                                                                       "1 validation error for ServeInstanceDetails: proxy_location: value is not a valid enumeration member",
		"ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: ServeController\n\tactor_id: 1\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR": "The actor died unexpectedly before finishing this task. The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR",
		"Job j9 does not exist": "Job j9 does not exist",
		"<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>": "502 Bad Gateway",
		"": "",
	} {
		if _, got := summarize(text); got != want {
			t.Errorf("%.60q gives %q, not %q", text, got, want)
		}
	}
}
