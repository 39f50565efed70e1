package dashboardclient

import (
	"slices"
	"testing"
)

// TestPydanticErrors has answers of Ray 2.60.0 (pydantic 2) and 2.40.0 (pydantic 1).
func TestPydanticErrors(t *testing.T) {
	for text, want := range map[string][]string{
		"1 validation error for ServeDeploySchema\napplications\n  Field required [type=missing, input_value={'applicatons': []}, input_type=dict]\n    For further information visit https://errors.pydantic.dev/2.14/v/missing": {
			"applications: field required"},
		"2 validation errors for ServeDeploySchema\nlogging_config.log_level\n  Value error, Got \"X\" for log_level. [type=value_error, input_value='X', input_type=str]\n    For further information visit https://errors.pydantic.dev/2.14/v/value_error\n" +
			"applications.0.deployments.1.ray_actor_options.num_cpu\n  Extra inputs are not permitted [type=extra_forbidden, input_value=1, input_type=int]\n    For further information visit https://x": {
			`logging_config.log_level: got "X" for log_level`, "applications[0].deployments[1].ray_actor_options.num_cpu: extra inputs are not permitted"},
		`ValidationError(model='ServeDeploySchema', errors=[{'loc': ('applications', 0, 'import_path'), 'msg': 'Got invalid \'path\' "mapp".', 'type': 'value_error'}, {'loc': ('__root__',), 'msg': "'NoneType' object is not iterable", 'type': 'type_error'}])`: {
			`applications[0].import_path: got invalid 'path' "mapp"`},
		"ValueError: something else": nil,
		"":                           nil,
	} {
		if got := pydanticErrors(text); !slices.Equal(got, want) {
			t.Errorf("%.60q gives %q, not %q", text, got, want)
		}
	}
}
