"""A headless Chromium, driven over its DevTools protocol. Needs `websockets` of PyPI."""
import base64
import json
import pathlib
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import time

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find():
    """The program, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page. `errors`: what its console reported, with exceptions and what its policy refused; `requests`: the URLs it loaded."""

    def __init__(self, program):
        self.errors, self.requests, self._answers, self._last = [], [], queue.Queue(), 0
        self._profile = tempfile.TemporaryDirectory(prefix="recollect-chromium.", ignore_cleanup_errors=True)
        # Its own sandbox cannot be set up by root, nor in most containers; the page comes from the server under test.
        self._process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             "--no-proxy-server", "--hide-scrollbars", "--remote-debugging-port=0", f"--user-data-dir={self._profile.name}", "about:blank"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        url = next((match.group(1) for line in self._process.stderr if (match := re.search(r"DevTools listening on (\S+)", line))), None)
        if url is None:
            raise RuntimeError(f"{program} ended with {self._process.wait()} before it listened")
        threading.Thread(target=self._process.stderr.read, daemon=True).start()  # so that its pipe does not fill
        self._socket, self._session = connect(url, max_size=None, proxy=None), None
        threading.Thread(target=self._receive, daemon=True).start()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._socket.close()
        self._profile.cleanup()

    def _receive(self):
        try:
            for text in self._socket:
                message = json.loads(text)
                if "id" in message:
                    self._answers.put(message)
                else:
                    self._note(message["method"], message["params"])
        except Exception as error:  # the browser is gone: whoever waits hears of it
            self._answers.put({"id": None, "error": {"message": repr(error)}})

    def _note(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str([part.get("value", part.get("description")) for part in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method, **params):
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        answer = self._answers.get(timeout=60)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']['exception'].get('description')}")
        return result["result"].get("value")

    def wait(self, expression, seconds=60):
        """Until it is true."""
        end = time.monotonic() + seconds
        while not self.evaluate(f"!!({expression})"):  # an element comes as {}
            if time.monotonic() > end:
                raise TimeoutError(f"after {seconds} s not true: {expression}\nthe page says: {self.evaluate('document.body.innerText')[:2000]}")
            time.sleep(0.02)  # between questions to another process

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def click(self, selector):
        """With the mouse, in the middle of the element."""
        place = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{place}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        x, y = self.evaluate(f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({place}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, code=0, text="", modifiers=0):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, text=text, modifiers=modifiers)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code, modifiers=modifiers)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def choose(self, selector, *paths):
        """Files, in a field that takes them."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])

    def emulate(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def screenshot(self, path, whole=False):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))
