// Package sizes compares what a job's command tells a framework about the cluster's size with the cluster file, before anything is allocated.
package sizes

// size is a number of the cluster file.
type size int

const (
	nodes     size = iota // with GPUs
	gpusOfOne             // GPUs of a node
	gpusOfAll
)

// option is how a framework is told a size. It is one number of the cluster file, so more than this number can never be there.
type option struct {
	name      string // a flag, or the key of a configuration, which is a file or on the command line as KEY=NUMBER
	framework string
	size      size
}

// options are the sizes that frameworks for reinforcement learning take. Where they were read, and at which
// version, stands in test/recipes/options; TestOptions compares the names with these lists.
var options = []option{
	{"trainer.nnodes", "verl", nodes},
	{"trainer.n_gpus_per_node", "verl", gpusOfOne},
	{"--actor.num_nodes", "openrlhf", nodes},
	{"--actor.num_gpus_per_node", "openrlhf", gpusOfOne},
	{"--ref.num_nodes", "openrlhf", nodes},
	{"--ref.num_gpus_per_node", "openrlhf", gpusOfOne},
	{"--critic.num_nodes", "openrlhf", nodes},
	{"--critic.num_gpus_per_node", "openrlhf", gpusOfOne},
	{"--reward.num_nodes", "openrlhf", nodes},
	{"--reward.num_gpus_per_node", "openrlhf", gpusOfOne},
	{"trainer.placement.policy_num_nodes", "skyrl", nodes},
	{"trainer.placement.policy_num_gpus_per_node", "skyrl", gpusOfOne},
	{"trainer.placement.ref_num_nodes", "skyrl", nodes},
	{"trainer.placement.ref_num_gpus_per_node", "skyrl", gpusOfOne},
	{"cluster.num_nodes", "nemo-rl", nodes},
	{"cluster.gpus_per_node", "nemo-rl", gpusOfOne},
	{"--actor-num-nodes", "slime", nodes},
	{"--actor-num-gpus-per-node", "slime", gpusOfOne},
	{"cluster.n_nodes", "areal", nodes},
	{"cluster.n_gpus_per_node", "areal", gpusOfOne},
	{"cluster.node_num", "trinity", nodes},
	{"cluster.gpu_per_node", "trinity", gpusOfOne},
	{"actor_train.device_mapping", "roll", gpusOfAll}, // ROLL finds the other sizes from it
	{"actor_infer.device_mapping", "roll", gpusOfAll},
	{"reference.device_mapping", "roll", gpusOfAll},
}
