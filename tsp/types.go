package tsp

// cluster is what the launcher adds to the cluster file itself.
type cluster struct {
	// TSP runs Ray on this machine when task-spooler's queue has a free slot. Its presence (`tsp: {}`) chooses the tsp launcher if nothing else does.
	TSP *Section `json:"tsp,omitempty"`
}

// Section chooses the queue of task-spooler.
type Section struct {
	// Socket is the queue's socket, as in TS_SOCKET. Default: TS_SOCKET, or tsp's own for you.
	Socket string `json:"socket,omitempty" path:"client"`
}
