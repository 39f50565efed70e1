"""A simulator of the keeper's life: the real rayctl_keeper.run.life in virtual time, against models of Ray, of the nodes, of the client and of the disk. One seed is one life."""
