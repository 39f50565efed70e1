"""The job: its attempts, what runs before it, its submission, and its driver."""
