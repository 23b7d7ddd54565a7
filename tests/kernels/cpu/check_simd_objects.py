"""Fails when an object file of vector code holds an inline function that other object files may hold, too: the linker would
keep one copy, and it could reach a machine that lacks its instructions (kernels/cpu/simd.h). Usage: check_simd_objects.py OBJECT..."""
import subprocess
import sys

objects = sys.argv[1:]
if not objects:
    sys.exit("no object files given")
shared = symbols = 0
for path in objects:
    listing = subprocess.run(["nm", "--demangle", path], check=True, capture_output=True, text=True).stdout.splitlines()
    if not listing:
        sys.exit(f"{path}: nm lists no symbols")
    symbols += len(listing)
    for line in listing:
        # "address kind name"; undefined symbols have no address. W, V and u are those that the linker merges.
        fields = line.split(maxsplit=2)
        if len(fields) == 3 and fields[1] in "WVu":
            print(f"{path}: {fields[2]}")
            shared += 1
print(f"{len(objects)} objects, {symbols} symbols, {shared} shared inline functions")
sys.exit(1 if shared else 0)
