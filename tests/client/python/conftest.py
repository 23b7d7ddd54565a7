"""One server with one document, for the tests of a file."""
import pytest
import recollect
from serving import TEXT, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("data"), "--backup-dir", tmp_path_factory.mktemp("kept") / "backups")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def client(server):
    with recollect.Client(server.address) as connected:
        connected.ingest(TEXT, id="novel")
        yield connected
