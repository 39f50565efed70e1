"""What the job's batch script runs."""
