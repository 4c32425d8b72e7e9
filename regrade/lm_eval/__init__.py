"""Tasks of lm-evaluation-harness (https://github.com/EleutherAI/lm-evaluation-harness): requests, and scores of stored answers."""
