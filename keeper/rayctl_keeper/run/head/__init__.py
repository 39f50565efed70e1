"""Ray's head: whether it is still the one that answered first, and whether one that does not answer is busy, cut off or gone."""
