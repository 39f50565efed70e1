#!/bin/bash
# Ray's documentation, "Deploying on Slurm": the template that starts head and workers one by one.
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
nodes_array=($nodes)
head_node=${nodes_array[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
if [[ "$head_node_ip" == *" "* ]]; then
	IFS=' ' read -ra ADDR <<<"$head_node_ip"
	if [[ ${#ADDR[0]} -gt 16 ]]; then head_node_ip=${ADDR[1]}; else head_node_ip=${ADDR[0]}; fi
fi
ip_head=$head_node_ip:6379
export ip_head
srun --nodes=1 --ntasks=1 -w "$head_node" ray start --head --node-ip-address="$head_node_ip" --port=6379 --num-cpus=1 --block &
sleep 10
worker_num=$((SLURM_JOB_NUM_NODES - 1))
for ((i = 1; i <= worker_num; i++)); do
	srun --nodes=1 --ntasks=1 -w "${nodes_array[$i]}" ray start --address "$ip_head" --num-cpus=1 --block &
	sleep 5
done
"$@"
