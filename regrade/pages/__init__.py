"""Pages of results: the viewer, and reports to hand on."""
