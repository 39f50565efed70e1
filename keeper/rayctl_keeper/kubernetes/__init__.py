"""What pods run: the keeper's, its record's, and a node whose setup failed."""
