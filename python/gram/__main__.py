"""The command gram, which the wheel brings: `gram --help`, `python -m gram --help`."""

import os
import pathlib
import sys


def main():
    """Becomes the command, which stands in the package's folder."""
    program = pathlib.Path(__file__).parent / "gram"
    if not program.is_file():
        sys.exit(f"gram: {program} is not there: this build of the package has no command")
    sys.stdout.flush()
    os.execv(program, ["gram", *sys.argv[1:]])


if __name__ == "__main__":
    main()
