"""Write the software bill of materials: every locked dependency as CycloneDX JSON.

    python -m tools.sbom dist/engram.cdx.json

Versions and hashes come from the lock file, licences from the metadata of what is installed. The same
lock gives the same file, byte for byte: there is no time in it, and its number follows from its content.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import uuid
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from engram import __version__
from tools.lock import Pinned, read_lock

ROOT = Path(__file__).parents[1]
SPEC_VERSION = "1.6"
_ROOT_REF = f"pkg:pypi/engram@{__version__}"
_LICENSE_CHARACTERS_MAX = 100
"""Some packages have the whole text in the field for the name."""


def build_sbom(pinned: Sequence[Pinned]) -> dict[str, Any]:
    """Return the bill of materials of a lock."""
    content: dict[str, Any] = {
        "metadata": {"component": _engram()},
        "components": [_component(each) for each in pinned],
        "dependencies": _dependencies(pinned),
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        **content,
    }


def _engram() -> dict[str, Any]:
    return {
        "type": "application",
        "bom-ref": _ROOT_REF,
        "name": "engram",
        "version": __version__,
        "purl": _ROOT_REF,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }


def _component(each: Pinned) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": each.purl,
        "name": each.name,
        "version": each.version,
        "purl": each.purl,
        "scope": "required" if each.marker is None else "optional",
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in each.sha256],
    }
    if licenses := _licenses(each.name):
        component["licenses"] = licenses
    if each.marker is not None:
        component["properties"] = [{"name": "engram:marker", "value": each.marker}]
    return component


def _licenses(name: str) -> list[dict[str, Any]]:
    """Return what an installed package says of its licence; nothing for one that is not here."""
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return []
    facts: dict[str, Any] = package.metadata.json
    if expression := facts.get("license_expression"):
        return [{"expression": expression}]
    classifiers: list[str] = facts.get("classifier", [])
    named = [
        classifier.rpartition(" :: ")[2]
        for classifier in classifiers
        if classifier.startswith("License ::") and not classifier.endswith("OSI Approved")
    ]
    said = str(facts.get("license", "")).strip()
    if not named and 0 < len(said) <= _LICENSE_CHARACTERS_MAX:
        named = [said]
    return [{"license": {"name": each}} for each in named or _titles(package)]


def _titles(package: metadata.Distribution) -> list[str]:
    """Return the first lines of licence files, for a package that names its licence nowhere else."""
    names: list[str] = package.metadata.get_all("License-File") or []
    texts = [package.read_text(f"licenses/{name}") for name in names]
    titles = [text.strip().partition("\n")[0].strip() for text in texts if text]
    return [title for title in titles if 0 < len(title) <= _LICENSE_CHARACTERS_MAX]


def _dependencies(pinned: Sequence[Pinned]) -> list[dict[str, Any]]:
    # A package may be pinned several times, for several versions of Python.
    refs: dict[str, list[str]] = {"engram": [_ROOT_REF]}
    for each in pinned:
        refs.setdefault(each.name, []).append(each.purl)
    needs: dict[str, set[str]] = {ref: set() for own in refs.values() for ref in own}
    for each in pinned:
        for ref in (ref for parent in each.via for ref in refs.get(parent, ())):
            needs[ref].add(each.purl)
    return [{"ref": ref, "dependsOn": sorted(needed)} for ref, needed in needs.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("target", type=Path)
    parser.add_argument("--lock", type=Path, default=ROOT / "requirements.lock")
    chosen = parser.parse_args(arguments)
    sbom = build_sbom(read_lock(chosen.lock))
    chosen.target.parent.mkdir(parents=True, exist_ok=True)
    chosen.target.write_text(json.dumps(sbom, indent=2) + "\n", encoding="utf-8")
    unknown = [each["name"] for each in sbom["components"] if "licenses" not in each]
    print(f"{chosen.target}: {len(sbom['components'])} components", file=sys.stderr)
    if unknown:
        print(f"without a known licence: {', '.join(unknown)}", file=sys.stderr)


if __name__ == "__main__":
    main()
