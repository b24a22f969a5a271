# SPDX-License-Identifier: Apache-2.0
"""browser: a Chromium that a test leads through Debian's chromedriver, and what the test sees in it.

Browser owns both programs: close() ends them, and fails if a process of them is left. Every wait has a deadline. The
page is observed from inside: probe.js notes each change with its time, so no test depends on how often it looks.
"""

import base64
import gc
import json
import os
import shutil
import tempfile
from pathlib import Path

from harness import DEADLINE, MARK, children_of, describe, marked, wait_until
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SHOTS = os.environ.get("BROWSER_SHOTS")
PROBE = (Path(__file__).resolve().parent / "probe.js").read_text()
WIDTHS = {390: 844, 1440: 900}  # a phone and a desk, with their heights
# Chromium itself must ask nothing of the network; a root user has no sandbox.
ARGUMENTS = ["--headless=new", "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-default-apps", "--disable-extensions", "--disable-sync", "--disable-breakpad",
             "--disable-dev-shm-usage", "--disable-gpu", "--no-proxy-server", "--lang=en-US",
             "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
             *(["--no-sandbox"] if os.geteuid() == 0 else [])]


class Browser:
    """One Chromium with one page. errors: what the console may say in this test. font: the reader's size of texts."""

    def __init__(self, world, font=16):
        self.world = world
        self.origin = None
        self.errors = []
        self.before = set(children_of(os.getpid()))
        # Chromium ends at once if the path of its socket does not fit, and that of world.root may be long.
        self.folder = tempfile.TemporaryDirectory(prefix="pch-", dir="/tmp")
        folder = self.folder.name
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in [*ARGUMENTS, f"--user-data-dir={folder}/profile"]:
            options.add_argument(argument)
        options.add_experimental_option("prefs", {"webkit.webprefs.default_font_size": font})
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        env = {**world.env, MARK: world.mark, "HOME": folder, "TMPDIR": folder, "no_proxy": "*"}
        os.environ["no_proxy"] = "*"  # the driver is on this machine
        self.driver = webdriver.Chrome(service=Service(DRIVER, env=env), options=options)
        self.command("Page.addScriptToEvaluateOnNewDocument", source=PROBE)
        self.command("Emulation.setScrollbarsHidden", hidden=True)  # of a picture, they would take a part
        self.driver.get("about:blank")  # the page that it begins with has a great many files
        self.driver.get_log("performance")
        assert self.left()  # so what is left would be found
        self.look(1440)

    def command(self, name, **parameters):
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def open(self, address):
        if address != "about:blank":
            self.origin = address.partition("#")[0].rstrip("/")
        self.driver.get(address)

    def close(self):
        self.driver.quit()
        self.driver.command_executor.close()
        self.driver = None
        gc.collect()
        wait_until(lambda: not self.left(), "Chromium and its driver to end")
        self.folder.cleanup()

    def left(self):
        """The processes of this browser that are there. A process that Chromium forks may hide its environment, so
        the children are compared, too: an orphan becomes ours."""
        own = {job.pid for job in self.world.jobs}
        pids = {pid for pid in marked(self.world.mark) if "chrom" in describe(pid)}
        return [describe(pid) for pid in pids | set(children_of(os.getpid())) - self.before - own
                if "chrom" in describe(pid)]

    # --- what is seen ---

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def probe(self, call, *arguments):
        """Calls a function of probe.js."""
        return self.run(f"return window.probe.{call}(...arguments)", *arguments)

    def until(self, script, what, *arguments, deadline=DEADLINE):
        """Waits until the script returns something true in the page, and returns it."""
        try:
            return WebDriverWait(self.driver, deadline, poll_frequency=0.05).until(
                lambda driver: driver.execute_script(script, *arguments))
        except TimeoutException:
            raise AssertionError(f"waited {deadline:g} s for the page to show {what}; it shows: "
                                 f"{self.text('body')!r}") from None

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def shows(self, selector, pattern):
        """Waits until the visible text of this element matches."""
        return self.until(
            "const at = document.querySelector(arguments[0]);"
            "return at && at.checkVisibility() && at.innerText.match(new RegExp(arguments[1], 's'))",
            f"{pattern!r} in {selector}", selector, pattern)

    def hides(self, selector):
        self.until("return !document.querySelector(arguments[0]).checkVisibility()", f"no {selector}", selector)

    def first(self, selector, pattern, since=0):
        """When (ms since 1970) the page first showed a text that matches, after `since`; waits for it."""
        return self.until("return window.probe.first(...arguments)", f"{pattern!r} in {selector} ever",
                          selector, pattern, since)

    # --- how it is looked at ---

    def look(self, width, scheme="light", height=None, scale=1):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height or WIDTHS.get(width, 900),
                     deviceScaleFactor=scale, mobile=False)
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        if self.origin:  # two frames: laid out, and drawn
            self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame("
                                             "() => requestAnimationFrame(() => done()))")

    def shot(self, name):
        """Four pictures of the whole page: light and dark, phone and desk."""
        for scheme in ("light", "dark"):
            for width in WIDTHS:
                self.look(width, scheme)
                self._keep(f"{name}-{scheme}-{width}")
        self.look(1440)

    def _keep(self, name):
        data = self.command("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        if SHOTS:
            path = Path(SHOTS) / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode(data))

    def press(self, *keys, held=""):
        """Presses these keys, one after the other, while the key `held` is down."""
        chain = ActionChains(self.driver)
        if held:
            chain = chain.key_down(held).send_keys(*keys).key_up(held)
        else:
            chain = chain.send_keys(*keys)
        chain.perform()

    # --- what must hold in every test ---

    def addresses(self):
        """All addresses that the page has asked for so far."""
        sent = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [event["params"]["request"]["url"] for event in sent if event["method"] == "Network.requestWillBeSent"]

    def check(self):
        """No request has left the origin; no error is in the console; no rule of the page's policy was broken."""
        addresses = self.addresses()
        assert any(address.startswith(f"{self.origin}/app.js") for address in addresses), addresses
        foreign = [at for at in addresses if not at.startswith((f"{self.origin}/", "data:,"))]
        assert not foreign, f"requests left the origin: {foreign}"
        told = [entry["message"] for entry in self.driver.get_log("browser")]
        wrong = [text for text in told if not any(allowed in text for allowed in self.errors)]
        assert not wrong, f"the console says: {wrong}"
        assert self.probe("faults") == []
