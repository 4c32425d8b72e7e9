"""What a person starts: one flow a file, and the command line."""
