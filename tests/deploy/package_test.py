"""The Debian package, used as somebody would who has nothing but Debian: made, installed in a fresh system, started, asked,
upgraded to itself, and removed.

    python3 tests/deploy/package_test.py SOURCE_DIR BUILD_DIR

Needs root, or a kernel that lets users make namespaces; the fresh system comes from this machine's package sources.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# What runs in the fresh system, as root, without systemd.
INSIDE = r"""
set -eux
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -qq --no-install-recommends /package.deb > /dev/null
dpkg -L recollect | grep -q '^/usr/share/man/man1/recollect-serve.1.gz$' || dpkg -L recollect | grep -q '^/usr/share/man/man1/recollect-serve.1$'
test "$(stat -c %a /etc/recollect/recollect.toml)" = 644
test -f /lib/systemd/system/recollect.service
grep -q '^PrivateDevices=no$' /usr/share/recollect/systemd/gpu.conf
bash -n /usr/share/bash-completion/completions/recollect
recollect --version

serve() {  # with the unit's own command
  set +x
  rm -f /ready
  $(sed -n 's/^ExecStart=//p' /lib/systemd/system/recollect.service) > /ready &
  for i in $(seq 300); do grep -q 'recollect ready' /ready && set -x && return; sleep 0.1; done
  return 1
}
serve
recollect --server 127.0.0.1:50051 ingest --id note /note.txt
recollect --server 127.0.0.1:50051 generate --mount note --prompt 'The pass key of Ahab is' --max-tokens 6 > /answer
grep -q '^ 48213' /answer
kill -TERM %1 && wait %1

sed -i 's/^# log-level = .*/log-level = "warning"/' /etc/recollect/recollect.toml
apt-get install -y -qq --reinstall /package.deb > /dev/null
grep -q '^log-level = "warning"' /etc/recollect/recollect.toml
serve
recollect --server 127.0.0.1:50051 docs list | grep -q '^note '
kill -TERM %1 && wait %1

apt-get remove -y -qq recollect > /dev/null
! test -e /usr/bin/recollect
test -f /etc/recollect/recollect.toml
apt-get purge -y -qq recollect > /dev/null
! test -e /etc/recollect
! test -e /usr/share/recollect
test -d /var/lib/recollect
echo ALL IS WELL
"""


def apt_options():
    """This machine's own about where packages come from and whether they are believed."""
    dump = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
    return [f"--aptopt={line}" for line in dump.splitlines() if re.match(r"Acquire::(Check-|https?::)", line)]


def sources():
    folder = pathlib.Path("/etc/apt")
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.sources")), *sorted((folder / "sources.list.d").glob("*.list"))]
    return "\n\n".join(path.read_text() for path in files if path.exists())


def main():
    source, build = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        subprocess.run(["cpack", "--config", build / "CPackConfig.cmake", "-B", temporary], cwd=build, check=True, stdout=subprocess.DEVNULL)
        (package,) = temporary.glob("recollect_*.deb")
        print(f"{package.name}: {package.stat().st_size >> 20} MiB")
        subprocess.run(["dpkg-deb", "--info", package], check=True)
        unit = temporary / "recollect.service"
        # Elsewhere than in the package the program has another path.
        unit.write_text((source / "deploy/recollect.service").read_text().replace("/usr/bin/recollect", "/bin/true"))
        shutil.copytree(source / "deploy/recollect.service.d", temporary / "recollect.service.d")
        verified = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], check=False, capture_output=True, text=True)
        assert verified.returncode == 0 and not verified.stderr, verified.stderr

        books = subprocess.run(["xz", "-dc", source / "examples/books.txt.xz"], check=True, capture_output=True).stdout.decode()
        note = temporary / "note.txt"
        note.write_text(books[:20000] + "\nThe pass key of Ahab is 48213. Remember it: 48213 is the pass key of Ahab.\n" + books[20000:40000])
        inside = temporary / "inside.sh"
        inside.write_text(INSIDE)
        suite = re.search(r"VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text()).group(1)
        done = subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=apt", "--dpkgopt=force-unsafe-io", *apt_options(),
             *(f"--customize-hook=copy-in {path} /" for path in (note, inside)),
             f"--customize-hook=cp {package} \"$1/package.deb\"",
             "--customize-hook=chroot \"$1\" bash /inside.sh", suite, "/dev/null", "-"],
            input=sources(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        print(done.stdout)
        return 0 if done.returncode == 0 and "ALL IS WELL" in done.stdout else 1


if __name__ == "__main__":
    sys.exit(main())
