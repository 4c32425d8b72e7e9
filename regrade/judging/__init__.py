"""Judge runs: questions made from stored answers, verdicts, panels of judges, and people's labels."""
