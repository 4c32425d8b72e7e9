"""What turns prompts into completions."""
