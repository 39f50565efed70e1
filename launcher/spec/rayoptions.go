package spec

import (
	"slices"
	"strings"
)

// RayOption is an option of `ray start` or of KubeRay for which the cluster file has no key.
type RayOption struct {
	// Names are what people call it, in lower case without - and _.
	Names []string
	// What names it for people, Instead is the next step on every launcher.
	What, Instead string
	// Key is the name of the key that launchers have for it in their sections; "" if none has one of the same meaning.
	Key string
}

// rayOptions are in the order of the reference.
var rayOptions = []RayOption{
	{Names: strings.Fields("port gcsport rayport dashboardport rayclientserverport clientport minworkerport maxworkerport workerportlist objectmanagerport nodemanagerport metricsexportport dashboardagentlistenport dashboardagentgrpcport runtimeenvagentport ports"), What: "ports: --port, --dashboard-port, --min-worker-port and the others",
		Instead: "rayctl chooses free ports, so that clusters of one machine do not collide; `rayctl dashboard --port` and `rayctl port-forward` give them a fixed one here"},
	{Names: strings.Fields("nodeipaddress nodeip ipaddress address rayaddress"), What: "--node-ip-address, --address",
		Instead: "the launcher chooses a node's address"},
	{Names: strings.Fields("dashboardhost includedashboard"), What: "--dashboard-host, --include-dashboard", Instead: "the dashboard listens where rayctl reaches it"},
	{Names: strings.Fields("systemconfig"), What: "--system-config", Instead: "set it in env as RAY_NAME: VALUE, from where Ray reads each of its settings on every node"},
	{Names: strings.Fields("redis redisaddress redispassword redisusername externalredis externalstoragenamespace gcsfaulttolerance gcsfaulttoleranceoptions"), What: "external Redis, GCS fault tolerance",
		Instead: "Ray's state is lost with its head: job.restarts.nodeFailure starts the driver again, and the driver continues from its checkpoints in job.outputDir"},
	{Names: strings.Fields("tls usetls rayusetls tlsservercert tlsserverkey tlscacert"), What: "TLS",
		Instead: "nodes identify themselves by the cluster's token; to encrypt their connections, set RAY_USE_TLS, RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT in env, with files that each node has. Each node's certificate must name the node's IP address, otherwise Ray does not come up, and the reason is in gcs_server.err among the node's logs. The dashboard and the keeper are not encrypted"},
	{Names: strings.Fields("authmode authoptions authtoken token"), What: "tokens: RAY_AUTH_MODE, authOptions", Instead: "rayctl makes a token for each start of a head (on Kubernetes for each cluster) where Ray has tokens (2.52 and later)"},
	{Names: strings.Fields("tempdir raytmpdir"), What: "--temp-dir", Key: "tmpDir"},
	{Names: strings.Fields("plasmadirectory"), What: "--plasma-directory", Instead: "the object store is in /dev/shm, and objectStoreMemory is its size"},
	{Names: strings.Fields("numcpus"), What: "--num-cpus", Instead: "use cpus"},
	{Names: strings.Fields("numgpus"), What: "--num-gpus", Instead: "use gpus"},
	{Names: strings.Fields("spillingdirectory spilldir spilldirectory"), What: "--object-spilling-directory by other names", Instead: "use objectSpillingDirectory of the head or of a worker group"},
	{Names: strings.Fields("raystartparams"), What: "rayStartParams", Instead: "the keys of head and workers set the arguments of `ray start`"},
}

// Has reports whether somebody who writes name means the option.
func (o RayOption) Has(name string) bool {
	return slices.Contains(o.Names, strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name)))
}
