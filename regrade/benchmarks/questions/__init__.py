"""Where questions come from, and how they become samples and prompts."""
