"""Makes recollect/v1/*_pb2.py from the project's proto files when the package is built."""

import atexit
import pathlib
import shutil
import tempfile

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
# Where setuptools writes what it makes on the way: by default beside the sources, in somebody's checkout.
WORK = tempfile.mkdtemp(prefix="recollect-python.")
atexit.register(shutil.rmtree, WORK, ignore_errors=True)
PROTO = HERE / "proto" if (HERE / "proto").exists() else HERE.parent.parent / "proto"


class BuildWithStubs(build_py):
    def run(self) -> None:
        import grpc_tools
        from grpc_tools import protoc

        out = HERE / "src" if self.editable_mode else pathlib.Path(self.build_lib)
        out.mkdir(parents=True, exist_ok=True)
        files = sorted((PROTO / "recollect" / "v1").glob("*.proto"))
        if not files:
            raise FileNotFoundError(f"no proto files in {PROTO / 'recollect' / 'v1'}")
        well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
        arguments = [f"-I{PROTO}", f"-I{well_known}", f"--python_out={out}", f"--pyi_out={out}",
                     f"--grpc_python_out={out}", *map(str, files)]
        if protoc.main(["protoc", *arguments]) != 0:
            raise RuntimeError("protoc failed")
        super().run()


class SdistWithProto(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        for path in sorted((PROTO / "recollect" / "v1").glob("*.proto")):
            self.mkpath(f"{base_dir}/proto/recollect/v1")
            self.copy_file(str(path), f"{base_dir}/proto/recollect/v1/{path.name}")


setup(cmdclass={"build_py": BuildWithStubs, "sdist": SdistWithProto},
      options={"build": {"build_base": WORK}, "egg_info": {"egg_base": WORK}})
