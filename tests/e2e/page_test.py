"""The web page in a headless Chromium against a real server and the shipped model: ingest, ask, find the secret lit up, delete.

    python3 tests/e2e/page_test.py SOURCE_DIR RECOLLECT_BINARY PACKAGES_DIR WORK_DIR [--url URL]

Packages come from PyPI (pypi.py); WORK_DIR gets the screenshots. Ends with 77 where there is no Chromium. With --url
the page of a server that runs already is tested, and no server is started.
"""
import argparse
import pathlib
import signal
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

from pypi import go_on

SECRET = "482135"
SENTENCE = f" The secret number of the amber falcon is {SECRET}. "
PROMPT = "What is the secret number of the amber falcon? The secret number of the amber falcon is"
BOOK_BYTES, SECRET_AT = 400_000, 150_000
SKIP = 77


class Server:
    def __init__(self, source, binary, data_dir):
        self.process = subprocess.Popen(
            [binary, "serve", "--model", source / "models/recollect-7m", "--data-dir", data_dir, "--grpc-listen", "127.0.0.1:0",
             "--http-listen", "127.0.0.1:0", "--log-level", "warning"], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if " http=" not in line:
            sys.exit(f"the server did not start: {line}")
        self.url = "http://" + line.split(" http=")[1].split()[0]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.process.kill()
            self.process.wait()
            return
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(timeout=60) != 0:
            sys.exit(f"the server ended with {self.process.returncode}")


def expect(holds, what):
    if not holds:
        raise AssertionError(what)
    print("ok:", what, flush=True)


def write_book(source, path):
    """Prose that the model has not seen, with the secret among it; the part of its bytes that stands before the secret."""
    books = subprocess.run(["xz", "-dc", source / "examples/books.txt.xz"], check=True, capture_output=True).stdout
    text = books[:BOOK_BYTES].decode(errors="ignore")
    at = text.index(". ", SECRET_AT) + 1
    path.write_text(text[:at] + SENTENCE + text[at:])
    return len(text[:at].encode()) / len(path.read_bytes())


def ingest(page, book):
    page.choose("#file", book)
    page.wait("document.querySelector('#uploads progress')?.value > 0 && /tokens\\/s/.test(document.querySelector('#uploads .facts').innerText)")
    print("ok: a bar shows how far the ingest is", flush=True)
    page.wait("document.querySelector('#list input')?.checked && !document.querySelector('#uploads li')", 300)
    row = page.evaluate("document.querySelector('#list li').innerText")
    expect(book.name in row and "tokens" in row and "KiB" in row, f"the document is listed with its size, and ticked: {row!r}")


def ask_for_the_secret(page, depth):
    page.click("#prompt")
    page.type(PROMPT)
    page.press("Enter", 13, "\r", modifiers=2)  # Ctrl
    page.wait("document.querySelector('article:not(.running) .speed')?.innerText.includes('tokens/s')")
    answer = page.evaluate("document.querySelector('article .answer').innerText")
    expect(SECRET in answer.removeprefix(PROMPT), f"the answer has the secret: {answer.removeprefix(PROMPT)[:60]!r}")
    steps = page.evaluate("Number(document.querySelector('.steps input').max) + 1")
    expect(steps >= 2, f"there are {steps} steps")
    # The step after the prompt; the last one belongs to what was generated behind the secret.
    page.evaluate("document.querySelector('.steps input').focus()")
    page.press("Home", 36)
    middle = page.evaluate("""[...document.querySelectorAll('.track button')].map((one) => ({
        at: parseFloat(one.style.getPropertyValue('--at')), light: parseFloat(one.style.getPropertyValue('--light')), key: one.dataset.chunk}))
        .filter((one) => one.light > 0.5)""")
    near = [one for one in middle if abs(one["at"] / 100 - depth) < 0.01]
    expect(near, f"a chunk is lit at {depth:.3f} of the document, where the secret is: {middle}")
    return [one["key"] for one in near]


def open_the_chunk(page, keys):
    page.click(f".track button[data-chunk='{keys[-1]}']")  # the last of them lies on top where bars overlap
    page.wait("document.querySelector('.chunk:not([hidden]) .text')")
    print("ok: a click on the map opens a chunk", flush=True)
    marks = {}
    for key in keys:  # a chunk and its successor are fetched together, and the secret is in one of them
        chip = f".hits button[data-chunk='{key}']"
        if page.evaluate(f'document.querySelector("{chip}").ariaPressed') != "true":
            page.click(chip)
        page.wait(f"document.querySelector('.chunk .text') && document.querySelector(\"{chip}\").ariaPressed === 'true'")
        marks[key] = page.evaluate("[...document.querySelectorAll('.chunk .text mark')].map((one) => one.innerText)")
        if any(SECRET in mark for mark in marks[key]):
            break
    expect(any(SECRET in mark for mark in marks[key]), f"what was copied from the chunk is marked: {marks}")
    expect(page.evaluate(f"[...document.querySelectorAll('.answer mark')].some((one) => one.innerText.includes('{SECRET}'))"), "and in the answer, too")
    page.evaluate(f"document.querySelector(`.hits button[data-chunk='{key}']`).focus()")
    page.press("Enter", 13, "\r")
    page.wait("document.querySelector('.chunk').hidden")
    page.press("Enter", 13, "\r")
    page.wait("document.querySelector('.chunk mark')")
    print("ok: the keyboard closes and opens it", flush=True)


def look(page, work, what="page"):
    work.mkdir(parents=True, exist_ok=True)
    for name, width, height, dark in (("light", 1280, 960, False), ("dark", 1280, 960, True), ("narrow", 360, 1800, False), ("narrow-dark", 360, 1800, True)):
        page.emulate(width, height, dark)
        page.evaluate("scrollTo(0, 0)")
        wide = page.evaluate("document.documentElement.scrollWidth")
        expect(wide <= width, f"{name}: {wide} pixels fit into {width}")
        page.screenshot(work / f"{what}-{name}.png")
    page.emulate(1280, 960)


def stop_an_answer(page):
    page.evaluate("document.querySelector('details').open = true")
    page.evaluate("document.querySelector('#max-tokens').value = 60000")
    page.click("#go")
    page.wait("document.querySelector('article.running .answer')?.innerText.length > document.querySelector('#prompt').value.length")
    page.click("#stop")
    page.wait("document.querySelector('article .speed').innerText === 'Stopped.' && !document.querySelector('#go').disabled")
    print("ok: an answer can be stopped", flush=True)


def delete(page):
    page.click("#list button")
    page.wait("document.querySelector('#question').open")
    page.press("Escape", 27)
    page.wait("!document.querySelector('#question').open")
    expect(page.evaluate("document.querySelectorAll('#list li').length") == 1, "Escape keeps the document")
    page.click("#list button")
    page.wait("document.querySelector('#question').open")
    page.click("#yes")
    page.wait("document.querySelectorAll('#list li').length === 0 && !document.querySelector('#none').hidden")
    print("ok: the document is gone", flush=True)


def say_what_went_wrong_with_each(page, root):
    names = ["first.txt", "good.txt", "second.txt"]
    for name in names:
        (root / name).write_bytes(b"Call me Ishmael." if name == "good.txt" else b"caf\xc3(")
    page.choose("#file", *(root / name for name in names))
    page.wait("document.querySelector('#notice').innerText.includes('second.txt')")
    said = page.evaluate("document.querySelector('#notice').innerText").splitlines()
    expect([line.split(":")[0] for line in said] == ["first.txt", "second.txt"], f"each upload that failed is named on a line: {said}")
    page.errors.clear()  # the console has the two refusals
    page.wait("document.querySelectorAll('#list li').length === 1")
    delete(page)


def list_many(page, url):
    text = b"a"
    for i in range(120):
        described = "?metadata=" + urllib.parse.quote('{"author": "Melville"}') if i == 3 else ""
        request = urllib.request.Request(f"{url}/v1/documents/note%2F{i:03}{'-whale' if i % 40 == 7 else ''}{described}", data=text, method="PUT")
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).read()
    page.open(url)
    page.wait("document.querySelectorAll('#list li').length === 50 && !document.querySelector('#pages').hidden")
    names = "[...document.querySelectorAll('#list label')].map((one) => one.innerText)"
    expect(page.evaluate("document.querySelector('#range').innerText") == "1 to 50 of 120 documents", "of many documents a page is shown, and how many there are")
    page.click("#list input")
    page.click("#next")
    page.click("#next")
    expect(page.evaluate(names)[0] == "note/100" and page.evaluate("document.querySelector('#next').disabled"), "the last page can be turned to")
    expect("note/000" in page.evaluate("document.querySelector('#mounted').innerText"), "what is ticked on another page stays mounted")
    page.click("#filter")
    page.type("WHALE")
    expect(page.evaluate(names) == ["note/007-whale", "note/047-whale", "note/087-whale"], "documents are found by their name")
    page.evaluate("document.querySelector('#filter').value = ''")
    page.click("#filter")
    page.type("Melville")
    expect(page.evaluate(names) == ["note/003"], "documents are found by their metadata")
    expect("author: Melville" in page.evaluate("document.querySelector('#list li').innerText"), "a document's metadata is shown")
    page.type("s")
    expect(page.evaluate("!document.querySelector('#unmatched').hidden && document.querySelector('#pages').hidden"), "that there is none is said")
    one = page.evaluate("import('/page/format.js').then((m) => [m.counted(1, 'token'), m.counted(2000, 'token')].join())")
    expect(one == "1 token,2,000 tokens", f"a number of one is not many: {one}")


def walk(program, source, url, work, root):
    from chromium import Browser  # needs the packages
    book = root / "book.txt"
    depth = write_book(source, book)
    with Browser(program) as page:
        page.emulate(1280, 960)
        page.open(url)
        page.wait("document.querySelector('#model').innerText && !document.querySelector('#none').hidden")
        ingest(page, book)
        open_the_chunk(page, ask_for_the_secret(page, depth))
        page.wait("!document.querySelector('#budgets').hidden")
        search = page.evaluate("document.querySelector('#search').innerText")
        expect(search == "Landmark keys are searched exactly", f"the page says which index is in use: {search!r}")
        look(page, work)
        stop_an_answer(page)
        delete(page)
        say_what_went_wrong_with_each(page, root)
        list_many(page, url)
        expect(not page.errors, f"the console has no error: {page.errors}")
        foreign = [one for one in page.requests if not one.startswith((url, "about:", "data:"))]
        expect(not foreign, f"nothing was loaded from elsewhere: {foreign}")


def main():
    parser = argparse.ArgumentParser()
    for name in ("source", "binary", "packages", "work"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--url")
    options = parser.parse_args()
    go_on(options.packages, "the web page")
    import chromium
    program = chromium.find()
    if program is None:
        print(f"SKIPPED: the web page is not tested, because none of {', '.join(chromium.NAMES)} is installed (apt-get install chromium)")
        return SKIP
    with tempfile.TemporaryDirectory(prefix="recollect-page.") as directory:
        root = pathlib.Path(directory)
        if options.url:
            walk(program, options.source, options.url, options.work, root)
        else:
            with Server(options.source, options.binary, root / "data") as server:
                walk(program, options.source, server.url, options.work, root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
