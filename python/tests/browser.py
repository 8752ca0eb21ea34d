"""A real browser for tests: headless Chromium of the system, without network."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

AUDIT = (Path(__file__).parent / "audit.js").read_text(encoding="utf-8")
_OPEN_ALL = "for (const fold of document.querySelectorAll('details')) fold.open = true;"


class Browser:
    """A browser that shows pages from files."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def show(self, page: Path, width: int, scheme: str, height: int = 900) -> None:
        """Loads a page in a window of this size, on a system that is light or dark."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        self.media(scheme)
        self.driver.get(page.as_uri())
        self.run("document.documentElement.style.scrollBehavior = 'auto';")

    def media(self, scheme: str, kind: str = "screen") -> None:
        """What the page is shown on."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.command("Emulation.setEmulatedMedia", media=kind, features=[feature])

    def command(self, name: str, **parameters: Any) -> Any:
        """A command of the browser's own protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def open_all(self) -> None:
        """Opens everything that folds."""
        self.run(_OPEN_ALL)

    def audit(self) -> list[str]:
        """What a reader would trip over."""
        problems: list[str] = self.run(AUDIT)
        return problems

    def messages(self) -> list[str]:
        """What the console said since the last time."""
        entries: list[dict[str, str]] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries]

    def picture(self, path: Path) -> None:
        """The page as a PNG, its first four screens and more; the rest is more of the same."""
        height = self.run("return Math.min(document.documentElement.scrollHeight, 6000)")
        width = self.run("return document.documentElement.clientWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.command(
            "Page.captureScreenshot", clip=clip, captureBeyondViewport=True, optimizeForSpeed=True
        )
        path.write_bytes(_decoded(shot["data"]))

    def pdf(self) -> bytes:
        """The page on A4 paper."""
        self.media("light", "print")
        paper = {"paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": True}
        return _decoded(self.command("Page.printToPDF", printBackground=True, **paper)["data"])


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)


@contextmanager
def started(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile, which ends with the block."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium and driver, "scripts/setup test installs chromium and chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for word in (
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--disable-background-networking",
        f"--user-data-dir={profile}",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ):
        options.add_argument(word)
    made = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(made)
    finally:
        made.quit()
