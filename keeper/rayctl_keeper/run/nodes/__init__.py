"""The cluster's nodes as the keeper starts and ends them, one class for each mode of the orders' start."""
