#!/usr/bin/env python3
"""Makes an OCI image of a `lazaret` binary, without Docker: the binary, the libraries that it is linked to, and nothing else.

  image.py BINARY OUTPUT.tar [--tag lazaret:0.1.0]     an OCI layout in a tar file, for `podman load`, `ctr images import`, `skopeo copy oci-archive:…`
  image.py BINARY FOLDER --rootfs                      only the files, for a Dockerfile

The binary may be for another architecture than this machine's: nothing of it is run, and its libraries are those of the cross compiler
(Debian: gcc-aarch64-linux-gnu). The same binary gives the same bytes: times are SOURCE_DATE_EPOCH (default 0), entries are in order, nobody owns
anything but root. The binary is linked to glibc and not static, because `lazaret driver nvidia` loads NVML from the host at run time.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile

USER = "65532"
# Where the loader looks for the libraries of a cross compiler.
CROSS = {"/usr/x86_64-linux-gnu/lib": "/lib", "/usr/aarch64-linux-gnu/lib": "/lib"}
PASSWD = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
GROUP = "root:x:0:\nnonroot:x:65532:\n"
# By the number in the header of an ELF file.
ARCHITECTURES = {62: "amd64", 183: "arm64"}
# Where libraries are, the cross compiler's last.
FOLDERS = {
    "amd64": ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/x86_64-linux-gnu/lib"],
    "arm64": ["/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/aarch64-linux-gnu/lib"],
}
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


def architecture(binary):
    """amd64 or arm64, by the header of the file."""
    with open(binary, "rb") as file:
        header = file.read(20)
    if header[:4] != b"\x7fELF" or len(header) < 20:
        sys.exit(f"{binary} is no program for Linux")
    (machine,) = struct.unpack_from("<H", header, 18)
    return ARCHITECTURES.get(machine) or sys.exit(f"{binary}: no image is made for machine {machine}")


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True, text=True).stdout


def libraries(binary):
    """The loader and the libraries of a binary, by the path at which it looks for each."""
    folders = FOLDERS[architecture(binary)]
    loader = re.search(r"program interpreter: (\S+)\]", readelf("-l", binary))
    if not loader:
        # A static binary needs nothing.
        return {}
    found, open_files = {loader[1]: find(os.path.basename(loader[1]), folders)[1]}, [binary]
    while open_files:
        for name in re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("-d", open_files.pop())):
            path, real = find(name, folders)
            if name != os.path.basename(loader[1]) and path not in found:
                found[path] = real
                open_files.append(real)
    return found


def find(name, folders):
    """Where the loader looks for a library, and where it is."""
    for folder in folders:
        place = os.path.join(folder, name)
        if os.path.exists(place):
            return os.path.join(CROSS.get(folder, folder), name), os.path.realpath(place)
    return sys.exit(f"the library {name} is missing; looked for it in {', '.join(folders)}")


def contents(binary):
    """(path, mode, bytes) of each file, in order."""
    files = {
        "etc/group": (0o644, GROUP.encode()),
        "etc/passwd": (0o644, PASSWD.encode()),
        "usr/local/bin/lazaret": (0o755, read(binary)),
    }
    for path, real in libraries(binary).items():
        files[path.lstrip("/")] = (0o755, read(real))
    return sorted((path, mode, data) for path, (mode, data) in files.items())


def read(path):
    with open(path, "rb") as file:
        return file.read()


def layer(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        folders = set()
        for path, _, _ in files:
            parts = path.split("/")[:-1]
            folders.update("/".join(parts[: at + 1]) for at in range(len(parts)))
        folders.add("tmp")
        entries = [(folder, 0o1777 if folder == "tmp" else 0o755, None) for folder in folders]
        for path, mode, data in sorted(entries + files, key=lambda entry: entry[0]):
            info = tarfile.TarInfo(path)
            info.mode, info.mtime = mode, EPOCH
            info.uname = info.gname = "root"
            if data is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class Layout:
    def __init__(self):
        self.blobs = {}

    def add(self, data, media_type, **more):
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data), **more}

    def add_json(self, value, media_type, **more):
        return self.add(json.dumps(value, sort_keys=True).encode(), media_type, **more)

    def write(self, output, index):
        with tarfile.open(output, "w", format=tarfile.USTAR_FORMAT) as archive:
            files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
            files.update({f"blobs/sha256/{digest}": data for digest, data in self.blobs.items()})
            for path, data in sorted(files.items()):
                info = tarfile.TarInfo(path)
                info.size, info.mtime, info.mode = len(data), EPOCH, 0o644
                archive.addfile(info, io.BytesIO(data))


def image(binary, output, tag):
    machine = architecture(binary)
    name, _, version = tag.rpartition(":")
    plain = layer(contents(binary))
    layout = Layout()
    packed = layout.add(gzip.compress(plain, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
    config = layout.add_json(
        {
            "architecture": machine,
            "os": "linux",
            "config": {
                "User": USER,
                "Entrypoint": ["/usr/local/bin/lazaret"],
                "WorkingDir": "/",
                "Env": ["PATH=/usr/local/bin"],
                "Labels": {"org.opencontainers.image.title": "lazaret", "org.opencontainers.image.version": version},
            },
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(plain).hexdigest()]},
        },
        "application/vnd.oci.image.config.v1+json",
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [packed],
    }
    names = {"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": tag}
    entry = layout.add_json(
        manifest,
        manifest["mediaType"],
        platform={"architecture": machine, "os": "linux"},
        annotations=names,
    )
    layout.write(output, {"schemaVersion": 2, "manifests": [entry]})
    print(f"{output} {name}:{version} {entry['digest']}")


def rootfs(binary, folder):
    for path, mode, data in contents(binary):
        target = os.path.join(folder, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)
        os.chmod(target, mode)
    tmp = os.path.join(folder, "tmp")
    os.makedirs(tmp, exist_ok=True)
    os.chmod(tmp, 0o1777)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("output")
    parser.add_argument("--tag", default="lazaret:latest")
    parser.add_argument("--rootfs", action="store_true")
    args = parser.parse_args()
    if shutil.which("readelf") is None:
        sys.exit("readelf is needed to find the libraries of the binary: install binutils")
    if args.rootfs:
        rootfs(args.binary, args.output)
    else:
        image(args.binary, args.output, args.tag)


main()
