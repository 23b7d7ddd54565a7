"""check_layers.py must fail, and name the line, once a forbidden include is added. Usage: check_layers_test.py SOURCE_DIR"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

FORBIDDEN = {
    "base/status.h": '#include "kernels/gemm/gemm.h"',
    "kernels/gemm/gemm.h": '#include "model/model.h"',
    "kernels/gca/gca.h": '#include "kernels/device/device.h"',
    "store/document_store.h": '#include "kernels/gemm/gemm.h"',
    "model/model.h": '#include "engine/engine.h"',
    "model/config/config.h": "#include <pcre2.h>",
    "engine/types.h": "#include <rocksdb/db.h>",
    "model/cpu/layers.h": '#include "model/device/device_model.h"',
    "engine/backend/backend.h": '#include "engine/step/step.h"',
    "engine/engine.h": '#include "engine/backend/backend.h"',
    "engine/session/session.h": '#include "engine/engine.h"',
    "engine/step/step.h": '#include "engine/backend/cpu/cpu_backend.h"',
    "engine/step/request.h": '#include "engine/ingest/ingest.h"',
    "service/codec/codec.h": '#include "engine/session/session.h"',
}


def main():
    source = pathlib.Path(sys.argv[1])
    for name, include in FORBIDDEN.items():
        with tempfile.TemporaryDirectory() as copy:
            root = pathlib.Path(copy)
            (root / "tools").mkdir()
            shutil.copy(source / "tools/check_layers.py", root / "tools")
            target = root / name
            target.parent.mkdir(parents=True)
            target.write_text(include + "\n" + (source / name).read_text())
            run = subprocess.run([sys.executable, root / "tools/check_layers.py"], capture_output=True, text=True)
            if run.returncode != 1 or f"{name}:1:" not in run.stdout:
                sys.exit(f"{include} in {name} was not noticed:\n{run.stdout}")
    print(f"{len(FORBIDDEN)} forbidden includes noticed")


if __name__ == "__main__":
    main()
