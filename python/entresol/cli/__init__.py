"""The command line: a module for each command of `entresol`, named as the command is."""
