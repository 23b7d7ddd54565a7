#!/usr/bin/env python3
"""Fails on an #include that points upward or sideways between the layers of docs/architecture.md."""
import itertools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# layer -> the layers it may include besides itself
ALLOWED = {
    "base": set(),
    "access": {"base"},
    "kernels": {"base"},
    "model": {"base", "kernels"},
    "store": {"base"},
    "engine": {"base", "access", "kernels", "model", "store"},
    "proto": set(),
    "service": {"base", "access", "model", "store", "engine", "proto"},
    "http": {"base", "access", "model", "store", "engine"},
    "client": {"base", "proto"},
    "cli": {"base", "access", "model", "store", "engine", "proto", "service", "http", "client"},
    "bench": {"base", "kernels", "model", "store", "engine", "client"},
}
# Which backend there is, and what is behind the interface that services call.
BACKENDS = ("engine/backend/cpu", "engine/backend/device")
INSIDE = ("engine/session", "engine/step", "engine/ingest", "model/cpu", "model/device", "model/state", "model/weights")
# Inside a layer, or in one file: what the first may not include of the others.
FORBIDDEN = {
    "model/cpu": ("model/device",),
    "model/device": ("model/cpu",),
    "model/config": ("model/cpu", "model/device", "model/state", "model/weights"),
    "model/weights": ("model/cpu", "model/device", "model/state"),
    "model/state": ("model/cpu", "model/device"),
    "engine/backend": ("engine/step", "engine/session", "engine/ingest", "engine/engine.h"),
    "engine/session": ("engine/step", "engine/ingest", "engine/engine.h", *BACKENDS),
    "engine/step": ("engine/ingest", "engine/engine.h", *BACKENDS),
    "engine/ingest": ("engine/engine.h", *BACKENDS),
    "engine/engine.cc": BACKENDS,
    "engine/engine.h": ("engine/backend", "kernels", "model", *INSIDE),
    "engine/stats.h": ("engine/backend", "kernels", "model", *INSIDE),
    "engine/streams.h": ("engine/backend", "kernels", "model", *INSIDE),
    "engine/types.h": ("engine/backend", "kernels", "model", *INSIDE),
    "base/numeric": ("base/io", "base/sync"),
    "base/io": ("base/sync",),
    "service": ("engine/backend", *INSIDE),
    "service/net": ("service/codec", "service/rpc", "engine", "store"),
    "service/codec": ("service/net", "service/rpc", "engine/engine.h"),
    "http": ("engine/backend", *INSIDE),
    "http/net": ("http/api", "http/page", "http/server.h", "engine", "store"),
    "http/page": ("http/api", "engine", "model", "store"),
    "cli": (*BACKENDS, *INSIDE),
    "cli/common": ("cli/verbs",),
    "store/rados": ("store/rocks",),
    "store/rocks": ("store/rados",),
    "store/rocks/db": ("store/rocks/documents", "store/rocks/backup"),
    "store/rocks/documents": ("store/rocks/backup",),
    "kernels/cpu": ("kernels/block", "kernels/device", "kernels/cuda"),
}
# What knows all operations, for whoever runs them; an operation's own folder includes none of it.
OF_ALL_OPERATIONS = ("kernels/device", "kernels/cuda/cuda_device.h", "kernels/cuda/cuda_operations.h")
for folder in sorted(path.name for path in ROOT.glob("kernels/*") if path.is_dir()):
    if folder not in ("cpu", "cuda", "device"):
        FORBIDDEN[f"kernels/{folder}"] = OF_ALL_OPERATIONS
# Headers of a library that only one folder may include.
OWNED = {"rocksdb/": "store/rocks", "rados/": "store/rados", "dnnl": "kernels", "grpc": ("service", "client", "proto"),
         "openssl/": ("model", "store", "base", "access", "service"), "pcre2.h": "model/text", "utf8proc.h": "model/text",
         "unicode/": "model/text", "boost/": "http/net", "prometheus/": "http", "faiss/": "engine/backend/cpu"}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def problems():
    for room in sorted({*ALLOWED, *FORBIDDEN, *itertools.chain(*FORBIDDEN.values())}):
        if not (ROOT / room).exists():
            yield f"{room}: named in tools/check_layers.py, and not there"
    for layer, allowed in ALLOWED.items():
        for path in sorted((ROOT / layer).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".cuh", ".inc"}:
                continue
            name = path.relative_to(ROOT).as_posix()
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = match.group(2)
                top = "proto" if target.startswith("recollect/v1/") else target.split("/")[0]
                if top in ALLOWED and top != layer and top not in allowed:
                    yield f"{name}:{number}: {layer} must not include {target}"
                for room, forbidden in FORBIDDEN.items():
                    inside = name == room or name.startswith(room + "/")
                    if inside and (target in forbidden or target.startswith(tuple(f + "/" for f in forbidden))):
                        yield f"{name}:{number}: {room} must not include {target}"
                for prefix, owners in OWNED.items():
                    owners = (owners,) if isinstance(owners, str) else owners
                    if match.group(1) == "<" or "/" in target or target.endswith(".hpp"):
                        if target.startswith(prefix) and not any(name.startswith(o + "/") for o in owners):
                            if layer not in ("bench",):
                                yield f"{name}:{number}: {target} belongs to {' and '.join(owners)} only"


def main():
    found = list(problems())
    print("\n".join(found) if found else "layers: no forbidden include")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
