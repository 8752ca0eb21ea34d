"""The installed command, which is also `python -m entresol`."""

import sys

INTERRUPTED = 130


def entry() -> None:
    """Loads the command line and runs it; Ctrl-C is one sentence while it still loads, too."""
    try:
        from entresol.cli.main import entry as run
    except KeyboardInterrupt:
        print("entresol: interrupted; nothing was written.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    entry()
