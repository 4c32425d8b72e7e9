"""The command line: a module per command, imported when the command is called."""
