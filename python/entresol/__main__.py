"""`python -m entresol` is the command line."""

from entresol.cli import entry

if __name__ == "__main__":
    entry()
