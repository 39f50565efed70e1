"""What an attempt of a job has left, and what the next one gets of it."""
