"""A deployment on a Prefect server, from outside: start a run, follow it, cancel it, bring home what it found."""
