"""Makes `python -m engram` the command line."""

from engram.cli import main

if __name__ == "__main__":
    main()
