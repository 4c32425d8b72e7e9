"""Jobs of generating and scoring, their answer plans, and generating the planned rows."""
