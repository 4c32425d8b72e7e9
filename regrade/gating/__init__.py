"""Is a candidate worse than its baseline? The verdict in three values, and how it is written down."""
