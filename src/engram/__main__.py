"""Makes `python -m engram` the command line."""

from engram.transport.cli import main

if __name__ == "__main__":
    main()
