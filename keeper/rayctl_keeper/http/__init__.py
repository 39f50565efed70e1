"""The keeper's HTTP API, and the mailbox that its threads share with the keeper."""
