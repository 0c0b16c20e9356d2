"""The page of a pool in a headless Chromium, driven over the WebDriver protocol.

page.py URL CONTROL SINEW [DIRECTORY]: checks what the page shows of a pool whose server listens at URL and CONTROL; writes
screenshots into the directory. Member 1 of the pool has injected latency spikes, and there are clients that write.
"""
import base64
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

PATIENCE = 60

# Nothing goes through a proxy: everything is on this machine.
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))


class Browser:
    """A session of Chromium."""

    def __init__(self, width, height, dark=False):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in self.driver.stdout:
            if "successfully on port" in line:
                self.base = "http://127.0.0.1:" + line.rsplit("port ", 1)[1].strip(". \n")
                break
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-device-scale-factor=1"]
        if dark:
            options.append("--force-dark-mode")
        chrome = {"args": options, "mobileEmulation": {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 1}}}
        wanted = {"browserName": "chrome", "goog:chromeOptions": chrome, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = ""
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = "/session/" + made["sessionId"]
        scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": scheme})

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + self.session + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *args):
        return self.call("POST", "/execute/sync", {"script": script, "args": args})

    def text(self, selector):
        return self.run("const e = document.querySelector(arguments[0]); return e && e.innerText;", selector) or ""

    def press(self, keys):
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def shot(self, name):
        size = self.run("return [document.documentElement.scrollWidth, document.documentElement.scrollHeight];")
        clip = {"x": 0, "y": 0, "width": size[0], "height": min(size[1], 4000), "scale": 1}
        params = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        made = self.call("POST", "/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": params})
        with open(name, "wb") as file:
            file.write(base64.b64decode(made["data"]))

    def wait(self, what, is_so):
        end = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < end, f"{what} takes too long: {self.text('body')}"
            time.sleep(0.1)

    def complaints(self):
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.kill()
            self.driver.wait()


def overflows(browser):
    """Whether the page is wider than the window."""
    return browser.run("return document.documentElement.scrollWidth > window.innerWidth;")


def headers(url, host=None):
    request = urllib.request.Request(url)
    if host:
        request.add_header("Host", host)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers)


def main(url, control, sinew, directory="."):
    def command(*args):
        return subprocess.run([sinew, *args, "--control", control], check=True, capture_output=True, text=True).stdout

    # A member whose path has markup is shown as text.
    markup = "m4<u>"
    command("volume", "create", "w", "1M")
    status, sent = headers(url)
    policy = sent.get("Content-Security-Policy", "")
    assert status == 200 and "default-src 'none'" in policy and "unsafe" not in policy, sent
    assert headers(url, "example.org")[0] == 421
    assert headers(url + "else")[0] == 404

    desktop = Browser(1280, 900)
    try:
        desktop.open(url)
        desktop.wait("the state", lambda: desktop.text("#health") == "healthy")
        # Ten lines, each of several points.
        points = "return [...document.querySelectorAll('#member-table polyline')].filter((e) => e.points.length > 2).length"
        desktop.wait("a history", lambda: desktop.run(points) == 10)
        desktop.wait("a spike", lambda: desktop.run("return document.querySelectorAll('#member-table line.spike').length") >= 1)
        assert "t" == desktop.text("#pool"), desktop.text("#pool")
        assert desktop.run("return document.querySelectorAll('#member-table tbody tr').length") == 5
        assert markup in desktop.text("#member-table") and desktop.run("return document.querySelector('#member-table u')") is None
        assert "injected fault, member 1" in desktop.text("#faults")
        assert "created" in desktop.text("#events") or "made" in desktop.text("#events"), desktop.text("#events")
        assert not overflows(desktop)
        desktop.shot(f"{directory}/page-desktop.png")
        # By keyboard: the first stop skips to the members, the second pauses.
        desktop.press(["\ue004"])
        assert desktop.run("return document.activeElement.className") == "skip"
        desktop.press(["\ue004", "\ue007"])
        assert desktop.run("return document.activeElement.id") == "pause"
        assert desktop.run("return document.getElementById('pause').getAttribute('aria-pressed')") == "true"
        desktop.press(["\ue007"])
        # What changes is shown.
        command("member", "offline", "2")
        desktop.wait("the change", lambda: "at risk" in desktop.text("#health"))
        desktop.wait("the advice", lambda: "member 2 out" in desktop.text("#advice"))
        desktop.wait("the event", lambda: "member 2" in desktop.text("#events"))
        desktop.shot(f"{directory}/page-at-risk.png")
        assert desktop.complaints() == [], desktop.complaints()
    finally:
        desktop.close()

    for name, dark in (("phone", False), ("phone-dark", True)):
        phone = Browser(390, 844, dark)
        try:
            phone.open(url)
            phone.wait("the state", lambda: phone.text("#health") == "at risk")
            phone.wait("a history", lambda: phone.run("return document.querySelectorAll('#member-table polyline').length") >= 10)
            assert not overflows(phone), "the page is wider than a phone"
            background = phone.run("return getComputedStyle(document.body).backgroundColor;")
            assert (sum(map(int, background[4:-1].split(", "))) < 200) == dark, background
            phone.shot(f"{directory}/page-{name}.png")
            assert phone.complaints() == [], phone.complaints()
        finally:
            phone.close()
    command("member", "online", "2", "--wait")


main(*sys.argv[1:])
