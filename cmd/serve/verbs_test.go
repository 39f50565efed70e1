package serve

import (
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// verbs are the commands of this package.
var verbs = apptest.Tree(New)

// clusters makes a launcher with a cluster in each state.
func clusters() launcher.Launcher {
	return (&apptest.Launcher{Ray: &apptest.Ray{}}).With("dev", "old", "queued")
}

// TestServeLines: command lines of serve.
func TestServeLines(t *testing.T) {
	const good = "applications: [{name: chat, route_prefix: /chat, import_path: 'm:app'}]"
	const two = "applications: [{name: chat, route_prefix: /chat, import_path: 'm:app'}, {name: other, route_prefix: /other, import_path: 'm:app'}]"
	config := func(text string) map[string]string { return map[string]string{"s.yaml": text} }
	apptest.Run(t, verbs, clusters, []apptest.Line{
		{Args: "serve apply -f s.yaml dev", Files: config(good), Out: "chat          /chat   RUNNING"},
		{Args: "serve apply -f s.yaml dev", Files: config(good), Out: "RUNNING", Err: "chat: http://127.0.0.1:8123/chat\n"},
		{Args: "serve apply -f s.yaml dev", Files: config("---\napiVersion: v1\nkind: ConfigMap\n---\napiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: x}\nspec:\n  serveConfigV2: |\n    " + good + "\n  rayClusterConfig: {}\n"),
			Out: "chat          /chat   RUNNING", Err: "s.yaml is a RayService: only its serveConfigV2 is applied; its cluster is not started, nor changed\n"},
		{Args: "serve apply -f s.yaml dev", Files: config("apiVersion: ray.io/v1\nkind: RayService\nspec: {rayClusterConfig: {}}\n"), Code: runstate.CodeSpec, Err: "the RayService in s.yaml has no spec.serveConfigV2: write"},
		{Args: "serve apply -f s.yaml dev", Files: config("http_options: {port: 9000, root_path: /v1}\n" + good), Out: "RUNNING", Err: "chat: http://127.0.0.1:9000/v1/chat\n"},
		{Args: "serve apply -f s.yaml dev", Files: config("http_options: {port: 9}\n" + good), Code: runstate.CodeConfig, Err: "s.yaml: http_options: port 9 is taken: choose another one"},
		{Before: "serve apply -f s.yaml dev", Args: "serve apply -f t.yaml dev", Files: map[string]string{"s.yaml": good, "t.yaml": "http_options: {port: 9000}\n" + good}, Code: runstate.CodeSpec,
			Err: "t.yaml: http_options.port is 9000, but Serve runs on the cluster and listens on 127.0.0.1:8123: `rayctl serve delete -c dev --all` ends Serve"},
		{Before: "serve apply -f s.yaml dev", Args: "serve apply -f s.yaml dev", Files: config(good), Out: "RUNNING", Err: "chat: http://127.0.0.1:8123/chat\n"},
		{Before: "serve apply -f s.yaml dev", Args: "serve list dev", Files: config(good), Out: "chat          /chat   RUNNING", Err: "chat: http://127.0.0.1:8123/chat\n"},
		{Before: "serve apply -f s.yaml dev", Args: "serve delete dev chat", Files: config(two), Err: "deleted chat"},
		{Before: "serve apply -f s.yaml dev", Args: "serve delete -c dev chat other --no-wait", Files: config(two), Err: "deleted chat, other", Calls: []string{"end Serve"}},
		{Before: "serve apply -f s.yaml dev", Args: "serve delete dev", Files: config(two), Code: runstate.CodeUsage, Err: "Serve has the applications chat, other: name the ones to delete, or give --all\n"},
		{Before: "serve apply -f s.yaml dev", Args: "serve delete dev --all", Files: config(two), Err: "there are no applications any more", Calls: []string{"end Serve"}},
		{Before: "serve apply -f s.yaml dev", Args: "serve shutdown dev", Files: config(two), Err: "there are no applications any more", Calls: []string{"end Serve"}},
		{Before: "serve apply -f s.yaml dev", Args: "serve delete dev", Files: config(good), Err: "there are no applications any more", Calls: []string{"end Serve"}},
		{Args: "serve delete dev chat --all", Code: runstate.CodeUsage, Err: "--all deletes all applications, and you name chat: leave one of them out"},
		{Before: "serve apply -f s.yaml dev", Args: "serve delete dev nosuch", Files: config(two), Code: runstate.CodeSpec, Err: "Serve has no application \"nosuch\": `rayctl serve status -c dev` lists them"},
		{Before: "serve apply -f s.yaml dev", Args: "serve logs dev chat", Files: config(two), Out: "the node's log\nprinted\n"},
		{Before: "serve apply -f s.yaml dev", Args: "serve logs dev", Files: config(two), Out: "[chat/D/r1] the node's log\n[chat/D/r1] printed\n[other/D/r1] the node's log\n"},
		{Before: "serve apply -f s.yaml dev", Args: "serve logs dev --controller", Files: config(two), Out: "the node's log\n"},
		{Before: "serve apply -f s.yaml dev", Args: "serve logs dev nosuch", Files: config(two), Code: runstate.CodeSpec, Err: `Serve has no application "nosuch"`},
		{Args: "serve logs dev", Code: runstate.CodeSpec, Err: "Serve has no application, so that there is no log"},
		{Args: "serve logs dev --tail -1", Code: runstate.CodeUsage, Err: "--tail cannot be negative"},
		{Args: "serve apply -f - dev -o name", Stdin: good, Out: "chat\n"},
		{Args: "serve apply -f s.yaml dev --no-wait -o json", Files: config(good), Out: `"chat": {`},
		{Args: "serve status dev", Err: "there is no application"},
		{Before: "serve apply -f s.yaml dev --no-wait", Args: "serve status dev", Files: config("applications: [{name: bad, import_path: 'm:nosuch'}]"), Out: "DEPLOY_FAILED",
			Err: "bad is DEPLOY_FAILED: module 'm' has no attribute 'nosuch': `rayctl serve logs -c dev --controller` shows more\n"},
		{Args: "serve status dev -o yaml", Out: "applications: "},
		{Args: "serve delete dev", Err: "there are no applications any more", Calls: []string{"end Serve"}},
		{Args: "serve delete dev --no-wait", Err: "there are no applications any more", Calls: []string{"end Serve"}},
		{Args: "serve apply dev", Code: runstate.CodeUsage, Err: "`rayctl serve apply` needs a config file, and there is no serve.yaml here: give -f FILE, or `rayctl init serve` writes one"},
		{Args: "serve deploy app:app", Code: runstate.CodeUsage, Err: "\"app:app\" is an application's import path, and `rayctl serve apply` needs a config file: `rayctl init serve` writes one"},
		{Args: "serve deploy dev app:app", Code: runstate.CodeUsage, Err: "\"app:app\" is an application's import path, and `rayctl serve apply` needs a config file: `rayctl init serve` writes one"},
		{Args: "serve delete dev -y", Err: "there are no applications any more", Calls: []string{"end Serve"}},
		{Args: "serve deploy dev", Files: map[string]string{"serve.yaml": good}, Out: "chat          /chat   RUNNING", Err: "using serve.yaml\n"},
		{Args: "serve apply s.yaml dev", Files: config(good), Out: "chat          /chat   RUNNING", Unsaid: "using"},
		{Args: "serve deploy dev s.yaml", Files: config(good), Out: "chat          /chat   RUNNING"},
		{Args: "serve apply it:s.yaml dev", Files: map[string]string{"it:s.yaml": good}, Out: "chat          /chat   RUNNING"},
		{Args: "serve apply s.yaml", Files: map[string]string{"s.yaml": good, "rayctl.yaml": "name: dev"}, Out: "chat          /chat   RUNNING"},
		{Args: "serve apply -f s.yaml t.yaml dev", Files: config(good), Code: runstate.CodeUsage, Err: "the config file is given twice: \"t.yaml\" and by -f: leave one of them out"},
		{Args: "serve apply s.yaml t.yaml", Files: config(good), Code: runstate.CodeUsage, Err: "two config files are given: \"s.yaml\" and \"t.yaml\": leave one of them out"},
		{Args: "serve apply s.yaml dev b", Files: config(good), Code: runstate.CodeUsage, Err: "`rayctl serve apply` takes one cluster; remove \"b\""},
		{Args: "serve apply -f '' dev", Code: runstate.CodeUsage, Err: "--file is empty"},
		{Args: "serve apply -f nosuch.yaml dev", Code: runstate.CodeSpec, Err: "Serve's config cannot be read: open nosuch.yaml: no such file or directory"},
		{Args: "serve apply -f s.yaml dev", Files: config("a: 1"), Code: runstate.CodeSpec, Err: "s.yaml has no applications: `serve build` writes one"},
		{Args: "serve apply -f s.yaml dev", Files: config("applications: [1]"), Code: runstate.CodeSpec, Err: "s.yaml: applications[0] is not a map"},
		{Args: "serve apply -f s.yaml dev", Files: config("applications: [{import_path: x}]"), Code: runstate.CodeSpec, Err: "s.yaml: applications[0] has no name"},
		{Args: "serve apply -f s.yaml dev", Files: config("{"), Code: runstate.CodeSpec, Err: "s.yaml: "},
		{Args: "serve apply -f s.yaml dev", Files: config("applications: [{name: chat, rout_prefix: /, import_path: 'm:app', deployments: [{name: D, user_config: {any: 1}, num_replica: 2}]}]\nhttp_options: {prt: 1}"), Code: runstate.CodeSpec,
			Err: "rayctl: s.yaml: Serve has no key applications[0].deployments[0].num_replica (did you mean num_replicas?); Serve has no key applications[0].rout_prefix (did you mean route_prefix?); Serve has no key http_options.prt (did you mean port?): correct or remove it: Serve would ignore it\n"},
		{Args: "serve apply -f s.yaml nosuch", Files: config("applications: [{name: chat, import_path: 'm:app', runtime_env: {working_dir: none}}]"), Code: runstate.CodeSpec, Err: `no cluster named "nosuch"`},
		{Args: "serve apply -f s.yaml dev", Files: config("applications: [{name: chat, import_path: 'm:app', runtime_env: {working_dir: none}}]"), Code: runstate.CodeSpec, Err: "none"},
		{Args: "serve status a b", Code: runstate.CodeUsage, Err: "`rayctl serve status` takes one cluster"},
		{Args: "serve status queued", Code: runstate.CodeUnreachable, Err: "cluster queued is not ready yet"},
		{Args: "serve nosuch", Code: runstate.CodeUsage, Err: "there is no command `rayctl serve nosuch`"},
		{Args: "serve stat", Code: runstate.CodeUsage, Err: "did you mean `rayctl serve status`?"},
	})
	eight := func() launcher.Launcher {
		one := 1
		file := &spec.ClusterSpec{Name: "dev", Workers: []spec.WorkerGroup{{Name: "engine", Replicas: &one, NodeResources: spec.NodeResources{GPUs: 8}}}}
		return (&apptest.Launcher{Ray: &apptest.Ray{}, File: file}).With("dev")
	}
	llm := func(tensorParallel, of string) map[string]string {
		return map[string]string{
			"rayctl.yaml": "name: dev\nlauncher: local\nworkers: [{name: engine, gpus: 100}]\n" + of,
			"s.yaml": "applications: [{name: chat, import_path: 'm:app', args: {llm_configs: [{engine_kwargs: {tensor_parallel_size: " + tensorParallel +
				"}, deployment_config: {autoscaling_config: {min_replicas: 1, max_replicas: 2}}}]}}]",
		}
	}
	const ofTemplate = "job: {metadata: {template: llm}}\n"
	apptest.Run(t, verbs, eight, []apptest.Line{
		{Args: "serve apply -f s.yaml dev", Files: llm("3", ofTemplate), Code: runstate.CodeSpec, Err: "rayctl: workers.engine.gpus = 8 is not divisible by applications.args.llm_configs.engine_kwargs.tensor_parallel_size = 3, but the GPUs of a replica are on one node: " +
			"give applications.args.llm_configs.engine_kwargs.tensor_parallel_size=2 or 4 in s.yaml\n"},
		{Args: "serve apply -f s.yaml dev", Files: llm("4", ofTemplate), Out: "RUNNING", Err: "using rayctl.yaml"},
		{Args: "serve apply -f s.yaml dev", Files: llm("3", ""), Out: "RUNNING", Err: "using rayctl.yaml"},
	})
	without := func() launcher.Launcher {
		return (&apptest.Launcher{Ray: &apptest.Ray{WithoutServe: true}}).With("dev")
	}
	apptest.Run(t, verbs, without, []apptest.Line{
		{Args: "serve apply -f s.yaml dev", Files: config(good), Code: runstate.CodeConfig,
			Err: "rayctl: Ray was installed without Serve on this cluster: `rayctl up dev --recreate --pip 'ray[serve]'` makes it anew with Serve"},
	})
}

// TestNoReplica: without a log the state of the application is the reason.
func TestNoReplica(t *testing.T) {
	s := &dashboardclient.ServeStatus{Applications: map[string]dashboardclient.ServeApplication{"bad": {Status: "DEPLOY_FAILED"}}}
	if got := noReplica(s, nil); got != "no replica of bad has begun, so that there is no log: the application is DEPLOY_FAILED" {
		t.Error(got)
	}
}
