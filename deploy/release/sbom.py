#!/usr/bin/env python3
"""Writes a CycloneDX 1.5 bill of materials of the `lazaret` binary: every crate that is linked in, with its version, licence and checksum.

  cargo metadata --format-version 1 --locked | sbom.py Cargo.lock > lazaret.cdx.json

Crates that only tests or build scripts need are left out.
"""

import json
import re
import sys


def checksums(lock):
    """Checksums of a lock file, by name and version."""
    found, name, version = {}, None, None
    for line in lock.splitlines():
        match = re.match(r'(name|version|checksum) = "(.*)"', line)
        if not match:
            continue
        if match[1] == "name":
            name = match[2]
        elif match[1] == "version":
            version = match[2]
        else:
            found[(name, version)] = match[2]
    return found


def linked(metadata, root):
    """Identifiers of the packages that end up in the binary."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, open_ids = set(), [root]
    while open_ids:
        current = open_ids.pop()
        if current in found:
            continue
        found.add(current)
        for dependency in nodes[current]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                open_ids.append(dependency["pkg"])
    return found


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, sums):
    entry = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package.get("license"):
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = sums.get((package["name"], package["version"]))
    if checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return entry


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        sums = checksums(file.read())
    metadata = json.load(sys.stdin)
    packages = {package["id"]: package for package in metadata["packages"]}
    root = next(package for package in metadata["packages"] if package["name"] == "lazaret")
    ids = linked(metadata, root["id"])
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    components = [component(packages[one], sums) for one in ids if one != root["id"]]
    edges = [
        {
            "ref": reference(packages[one]),
            "dependsOn": sorted(reference(packages[other]) for other in nodes[one]["dependencies"] if other in ids),
        }
        for one in ids
    ]
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**component(root, sums), "type": "application"}},
        "components": sorted(components, key=lambda entry: entry["bom-ref"]),
        "dependencies": sorted(edges, key=lambda edge: edge["ref"]),
    }
    json.dump(bom, sys.stdout, indent=2)
    print()


main()
