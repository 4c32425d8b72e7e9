"""Compare two answer sets: check that they are comparable, measure the change and test its significance."""
