"""The conversation of the web page in a headless Chromium: a question, its citations, the next turn, what goes wrong.

    python3 tests/e2e/page_chat_test.py CHAT_SERVER PACKAGES_DIR WORK_DIR [--url URL --document ID]

CHAT_SERVER answers from a script (tests/http/chat_server.cc), so that no model is needed. The directories are those of page_test.py. With --url
the page of a server that runs already is shown instead, with a model of its own: it is asked about that document, and looked at.
"""
import argparse
import json
import pathlib
import subprocess
import sys

from page_test import expect, look
from pypi import go_on

ANSWER = "At the next meeting Ishmael takes the minutes, and the pump is to be repaired."
SKIP = 77


class ChatServer:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("ready http="):
            sys.exit(f"the server did not start: {line}")
        self.url = "http://" + line.split("http=")[1].strip()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        if self.process.wait(timeout=60) != 0 and kind is None:
            sys.exit(f"the server ended with {self.process.returncode}")

    def behave(self, command):
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        expect(self.process.stdout.readline().strip() == command, f"the server now does this: {command}")


def last(selector):
    """Of the turn that came last."""
    return f"[...document.querySelectorAll('article.turn')].at(-1)?.querySelector({json.dumps(selector)})"


def ask(page, question, wait=True):
    page.click("#prompt")
    page.type(question)
    page.press("Enter", 13, "\r")
    if wait:
        page.wait(f"{last('.mine')}?.innerText === {json.dumps(question)} && !document.querySelector('article.running') && !document.querySelector('#go').disabled", 300)


def mount(page, document):
    page.wait("document.querySelector('#model').innerText && document.querySelector('#asking.chat')")
    page.wait("document.querySelector('#list input')")
    page.evaluate(f"[...document.querySelectorAll('#list label')].find((one) => one.innerText === {json.dumps(document)}).click()")
    expect(document in page.evaluate("document.querySelector('#mounted').innerText"), f"the page says that {document} is mounted")


def sent(page):
    """The messages of the last request."""
    return page.evaluate("window.lastBody.messages")


def watch_requests(page):
    page.evaluate("""(() => { const real = window.fetch;
        window.fetch = (path, options) => { if (path === '/v1/chat/completions') window.lastBody = JSON.parse(options.body); return real(path, options); }; })()""")


def converse(page):
    expect(page.evaluate("document.querySelector('#go').innerText") == "Send", "the page is for a conversation")
    ask(page, "Who takes the minutes?")
    expect(page.evaluate(f"{last('.answer')}.innerText") == ANSWER, "the answer is there")
    expect("prompt tokens were read before" in page.evaluate(f"{last('.speed')}.innerText"), "the page says what was not read again")
    expect(page.evaluate("document.querySelector('#prompt').value") == "", "the field is empty for the next question")
    ask(page, "And the pump?")
    expect([one["role"] for one in sent(page)] == ["user", "assistant", "user"], "the next question comes with what was said")
    expect(sent(page)[1]["content"] == ANSWER, "with the answer as it was")
    expect(page.evaluate("document.querySelectorAll('article.turn').length") == 2, "both turns are shown")


def open_citations(page):
    chips = page.evaluate(f"[...{last('.citations')}.querySelectorAll('button')].map((one) => one.innerText)")
    expect(len(chips) == 2 and all("minutes" in one for one in chips), f"the answer has its citations: {chips}")
    bars = page.evaluate(f"{last('.map')}.querySelectorAll('.track button').length")
    expect(bars == 2, "the map shows both blocks")
    page.wait(last(".chunk .text"))
    text = page.evaluate(f"{last('.chunk .text')}.innerText")
    expect(text == "Ishmael takes the minutes at the next meeting.", f"the heaviest passage is shown without a click: {text!r}")
    around = page.evaluate(f"[...{last('.chunk')}.querySelectorAll('.around')].map((one) => one.innerText)")
    expect(all("Point" in one for one in around), "in its place, with what stands around it")
    marks = page.evaluate(f"[...{last('.answer')}.querySelectorAll('mark')].map((one) => one.innerText)")
    expect(any("Ishmael takes the minutes" in one for one in marks), f"what the answer has from it is marked: {marks}")
    pressed = page.evaluate(f"{last('.map')}.querySelector('.track button[aria-pressed=true]')?.title")
    expect(pressed and "weight 0.600" in pressed, f"and the map shows where it lies: {pressed}")
    page.evaluate(f"{last('.citations button:last-child')}.click()")
    page.wait(f"{last('.chunk .text')}?.innerText.startsWith('The pump')")
    pressed = page.evaluate(f"{last('.map')}.querySelector('.track button[aria-pressed=true]')?.title")
    expect(pressed and "weight 0.700" in pressed, f"another citation at the step where it weighed most: {pressed}")
    page.evaluate(f"{last('.track button:not([aria-pressed=true])')}.click()")
    page.wait(f"{last('.chunk .text')}?.innerText.startsWith('Ishmael')")
    expect(page.evaluate(f"{last('.citations button')}.ariaPressed") == "true", "a click on the map opens the citation, too")


def go_wrong(page, server):
    server.behave("drop")
    ask(page, "Once more?")
    expect("oldest 2 messages had no room" in page.evaluate(f"{last('.bubble.theirs')}.innerText"), "the page says what had no room")
    server.behave("hang")
    ask(page, "Stop this one", wait=False)
    page.wait(f"document.querySelector('article.running') && {last('.answer')}?.innerText.length > 10")
    page.click("#stop")
    page.wait(f"{last('.speed')}.innerText === 'Stopped.' && !document.querySelector('#go').disabled")
    print("ok: an answer can be stopped", flush=True)
    page.wait(f"{last('.chunk .text')}?.innerText.startsWith('The pump')")
    server.behave("circle")
    ask(page, "Round and round")
    expect("it only repeated itself" in page.evaluate(f"{last('.bubble.theirs')}.innerText"), "the page says that an answer only repeated itself")
    expect(page.evaluate(f"{last('.answer')}.innerText").strip() == "Grüße an alle.", "and keeps it once")
    page.wait(f"{last('.chunk .text')}?.innerText.startsWith('Ishmael')")
    server.behave("fail")
    ask(page, "This fails")
    expect("chunk 3 is damaged" in page.evaluate(f"{last('.wrong')}.innerText"), "an error is shown where the answer would be")
    low, form = page.evaluate(f"[{last('.wrong')}.getBoundingClientRect().bottom, document.querySelector('#ask').getBoundingClientRect().top]")
    expect(0 < low <= form, f"and in sight, above the next question: {low} of {form}")
    server.behave("plain")
    page.evaluate("document.querySelector('#mount-as').value = 'nonsense'")
    page.evaluate("document.querySelector('#temperature').value = 101")
    page.evaluate("document.querySelector('#ask').noValidate = true")
    ask(page, "This is refused")
    expect("temperature" in page.evaluate(f"{last('.wrong')}.innerText"), "what the server refuses is shown")
    count = len(sent(page))
    page.evaluate("document.querySelector('#temperature').value = 0")
    page.evaluate(f"{last('.turn > button')}.click()")
    page.wait(f"{last('.answer')}?.innerText === {json.dumps(ANSWER)} && !document.querySelector('#go').disabled")
    expect(len(sent(page)) == count and sent(page)[-1]["content"] == "This is refused", "another try takes the place of what was refused")


def begin_anew(page):
    page.evaluate("document.querySelector('details').open = true")
    page.evaluate("document.querySelector('#system').value = 'Answer in one sentence.'")
    page.click("#new")
    expect(page.evaluate("document.querySelectorAll('article').length") == 0, "a new conversation is empty")
    ask(page, "Who are you?")
    expect([one["role"] for one in sent(page)] == ["system", "user"], "the system message comes first, and nothing of before")


def walk(program, url, server, document, work):
    from chromium import Browser  # needs the packages
    with Browser(program) as page:
        page.emulate(1280, 960)
        page.open(url)
        mount(page, document)
        watch_requests(page)
        if server is None:
            ask(page, "What is this document about?")
            page.wait(last(".chunk .text"))
            look(page, work, "chat")
            return
        converse(page)
        open_citations(page)
        look(page, work, "chat")
        go_wrong(page, server)
        begin_anew(page)
        # The refused request and the failed one are errors that the page shows, and the browser logs.
        errors = [one for one in page.errors if "400" not in one]
        expect(not errors, f"the console has no other error: {errors}")
        foreign = [one for one in page.requests if not one.startswith((url, "about:", "data:"))]
        expect(not foreign, f"nothing was loaded from elsewhere: {foreign}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server", type=pathlib.Path)
    parser.add_argument("packages", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--url")
    parser.add_argument("--document", default="minutes")
    options = parser.parse_args()
    go_on(options.packages, "the conversation of the web page")
    import chromium
    program = chromium.find()
    if program is None:
        print(f"SKIPPED: the conversation of the web page is not tested, because none of {', '.join(chromium.NAMES)} is installed (apt-get install chromium)")
        return SKIP
    if options.url:
        walk(program, options.url, None, options.document, options.work)
        return 0
    with ChatServer(options.server) as server:
        walk(program, server.url, server, options.document, options.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
