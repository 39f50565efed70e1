package serve

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// knownKeys are the keys of Serve's config in Ray 2.9 to 2.60, by the key that has them. Ray silently ignores others at these places.
var knownKeys = map[string][]string{
	"":             strings.Fields("applications controller_options grpc_options http_options logging_config proxy_location target_capacity tracing_config"),
	"applications": strings.Fields("args autoscaling_policy deployments external_scaler_enabled host import_path logging_config name port route_prefix runtime_env"),
	"deployments": strings.Fields("autoscaling_config backpressure_config deployment_actors gang_scheduling_config graceful_shutdown_timeout_s graceful_shutdown_wait_loop_s" +
		" health_check_period_s health_check_timeout_s logging_config max_concurrent_queries max_ongoing_requests max_queued_requests max_replicas_per_node" +
		" max_surge_percent name num_replicas placement_group_bundle_label_selector placement_group_bundles placement_group_strategy ray_actor_options" +
		" request_router_config rolling_update_percentage route_prefix user_config"),
	"ray_actor_options": strings.Fields("accelerator_type fallback_strategy label_selector memory num_cpus num_gpus object_store_memory resources runtime_env"),
	"http_options":      strings.Fields("host keep_alive_timeout_s port request_timeout_s root_path ssl_ca_certs ssl_certfile ssl_keyfile ssl_keyfile_password"),
	"grpc_options":      strings.Fields("enable_reflection grpc_servicer_functions port request_timeout_s"),
}

// checkKeys refuses keys that Ray would ignore: a route_prefix with a typing error would serve at another route. A Ray that is newer than what is known
// here may have more keys: for it they are a warning.
func checkKeys(ctx context.Context, a *app.App, c *app.Connection, file string, config map[string]any) error {
	unknown := unknownKeys("", "", config)
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	message := file + ": " + strings.Join(unknown, "; ")
	v, err := c.Version(ctx)
	if err != nil {
		return err
	}
	if v.AtLeast(2, 61) {
		a.UI.Warn("%s", message)
		return nil
	}
	return launcher.Fail(runstate.CodeSpec, nil, "correct or remove it: Serve would ignore it", "%s", message)
}

// unknownKeys lists the unknown keys, each with its place and the key that may be meant. of is the key that has the map.
func unknownKeys(of, at string, config map[string]any) (unknown []string) {
	known := knownKeys[of]
	for key, value := range config {
		place := strings.TrimPrefix(at+"."+key, ".")
		if !slices.Contains(known, key) {
			text := fmt.Sprintf("Serve has no key %s", place)
			if near := spec.Nearest(key, known); near != "" {
				text += fmt.Sprintf(" (did you mean %s?)", near)
			}
			unknown = append(unknown, text)
			continue
		}
		if knownKeys[key] == nil {
			continue
		}
		switch v := value.(type) {
		case map[string]any:
			unknown = append(unknown, unknownKeys(key, place, v)...)
		case []any:
			for i, item := range v {
				if m, ok := item.(map[string]any); ok {
					unknown = append(unknown, unknownKeys(key, fmt.Sprintf("%s[%d]", place, i), m)...)
				}
			}
		}
	}
	return unknown
}
