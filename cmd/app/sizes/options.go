// Package sizes compares what a job's command tells a framework about the cluster's size with the cluster file, before anything is allocated.
package sizes

// option is how a framework is told a size. It is one number of the cluster file, so more than this number can never be there.
type option struct {
	name      string // as on the command line
	framework string
	perNode   bool // GPUs of a node; else nodes
}

// options are the sizes that frameworks for reinforcement learning take on their command lines. Those of the first four were read from their wheels, the
// others from their repositories, at the versions that test/recipes/options names; TestOptions compares the names with these lists.
var options = []option{
	{"trainer.nnodes", "verl", false},
	{"trainer.n_gpus_per_node", "verl", true},
	{"--actor.num_nodes", "openrlhf", false},
	{"--actor.num_gpus_per_node", "openrlhf", true},
	{"--ref.num_nodes", "openrlhf", false},
	{"--ref.num_gpus_per_node", "openrlhf", true},
	{"--critic.num_nodes", "openrlhf", false},
	{"--critic.num_gpus_per_node", "openrlhf", true},
	{"--reward.num_nodes", "openrlhf", false},
	{"--reward.num_gpus_per_node", "openrlhf", true},
	{"trainer.placement.policy_num_nodes", "skyrl", false},
	{"trainer.placement.policy_num_gpus_per_node", "skyrl", true},
	{"trainer.placement.ref_num_nodes", "skyrl", false},
	{"trainer.placement.ref_num_gpus_per_node", "skyrl", true},
	{"cluster.num_nodes", "nemo-rl", false},
	{"cluster.gpus_per_node", "nemo-rl", true},
	{"--actor-num-nodes", "slime", false},
	{"--actor-num-gpus-per-node", "slime", true},
}
