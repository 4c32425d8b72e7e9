"""Tasks of lm-evaluation-harness: requests, and scores of stored answers (https://github.com/EleutherAI/lm-evaluation-harness)."""
