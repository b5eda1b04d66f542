"""An image as `docker save` writes it, made without a daemon: empty folders, and links as Debian has them in /.

All that runs in its containers is mounted into them.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

FOLDERS = ("usr", "etc", "root", "tmp", "proc", "sys", "dev", "run", "var", "experiments", "app")
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


def write(file: Path) -> Path:
    """``file``, whose stem is the image's name."""
    layer = _layer()
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "Cmd": ["sh"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }).encode()  # fmt: skip
    manifest = [{"Config": "config.json", "RepoTags": [f"{file.stem}:latest"], "Layers": ["layer.tar"]}]
    with tarfile.open(file, "w") as archive:
        for name, content in {
            "config.json": config, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode(),
        }.items():  # fmt: skip
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file


def _layer() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as layer:
        for name in FOLDERS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            layer.addfile(entry)
        for name, target in LINKS.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            layer.addfile(entry)
    return made.getvalue()
