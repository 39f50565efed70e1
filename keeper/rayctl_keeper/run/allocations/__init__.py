"""What was asked of the substrate, when it was there, and which nodes it holds."""
