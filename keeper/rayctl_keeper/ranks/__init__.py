"""The programs of a job that runs once or more on every node (job.launch). They travel in a variable of the job (launcher/driverio/ranks.go), and import nothing of this package."""
