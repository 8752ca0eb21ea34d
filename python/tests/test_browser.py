"""Reports in a real browser: nothing overflows, errs or hides; all of it works by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import fake_core
import pytest
import synthetic
from browser import Browser, started
from conftest import Entresol
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from entresol import core, report

WIDTHS = (360, 800, 1400)
PAPER_WIDTH = 703
"""A4 less the margins of `print.css`, in CSS pixels."""
LOGS = ("1MiB", "2MiB", "4MiB", "8MiB", "16MiB")


def study(traces: tuple[str, ...], designs: set[str]) -> str:
    summary = synthetic.summary(traces)
    summary["runs"] = [run for run in summary["runs"] if not designs or run["design"] in designs]
    setup = core.Setup("demo")
    presets = {design.name: core.effective_config(setup, design.name) for design in core.designs()}
    command = f"entresol run {' '.join(f'{trace}.etr' for trace in traces)} --machine demo"
    return report.render(summary, command, presets, core.designs(), core.parameters())


def sweep() -> str:
    points = []
    for trace, design, log, threads in product(
        ("ycsb", "srad"), ("base-cssd", "skybyte-w", "skybyte-full"), LOGS, ("8", "16", "24", "32")
    ):
        run: Any = synthetic.run(trace, design, int(threads))
        run["execution_time_ps"] = run["execution_time_ps"] * 8 // (8 + LOGS.index(log))
        run["config"]["ssd.log"]["size"] = log
        varied = {"trace": trace, "design": design, "ssd.log.size": log, "threads": threads}
        fails = (design, log, threads) == ("skybyte-w", "16MiB", "32")
        points.append(report.Point(varied, None if fails else run, "it is too large." * fails))
    told = report.Sweep(
        "Log size and threads",
        points,
        "entresol sweep log.toml -o log",
        "[grid]\nthreads = [8, 16, 24, 32]\n",
        "0.0.0",
    )
    return report.sweep_page(told, core.designs(), core.parameters())


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    place = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "_core", fake_core)
        texts = {
            "one": study(("sort",), {"skybyte-full"}),
            "comparison": study(("sort", "kv"), set()),
            "sweep": sweep(),
        }
    for name, text in texts.items():
        (place / f"{name}.html").write_text(text, encoding="utf-8")
    yield {name: place / f"{name}.html" for name in texts}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.mark.parametrize("name", ["one", "comparison", "sweep"])
def test_a_page_is_whole_and_readable_at_every_width_in_light_and_dark(
    browser: Browser, pages: dict[str, Path], tmp_path: Path, name: str
) -> None:
    for width, scheme in product(WIDTHS, ("light", "dark")):
        browser.show(pages[name], width, scheme)
        browser.picture(tmp_path / f"{name}-{width}-{scheme}.png")
        browser.open_all()
        assert (width, scheme, browser.audit()) == (width, scheme, [])
        assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.messages() == []


def test_the_pages_of_other_commands_are_whole_and_readable_too(
    browser: Browser, entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    machine = ("--machine", "demo", "-o", tmp_path)
    pattern = entresol_command("replay", "--pattern", "randrw", "--requests", "300", *machine)
    gain = entresol_command("explain-gain", captured, "--by", "mechanisms", *machine)
    hung = entresol_command("assumptions", captured, "--threads", "2", "--mode", "fast", *machine)
    codes = (pattern.code, gain.code, hung.code)
    assert codes == (0, 0, 0), (pattern.err, gain.err, hung.err)
    for name, width in product(("report.html", "gain.html", "assumptions.html"), WIDTHS):
        browser.show(tmp_path / name, width, "dark")
        browser.open_all()
        assert (name, width, browser.audit()) == (name, width, [])
    assert browser.messages() == []


FAULTS = {
    "the letters of": "document.querySelector('figure').style.width = '190px'",
    "the page is": "document.querySelector('h1').style.cssText = 'width: 3000px; max-width: none'",
    "leaves the page": "document.querySelector('h1').style.marginLeft = '-300px'",
    "is cut off": "document.querySelector('.lead').style.cssText ="
    " 'width: 40px; overflow: hidden; white-space: nowrap'",
    "leaves its picture": "document.querySelector('figure text').setAttribute('x', -300)",
    "lies on": "document.querySelectorAll('figure .label')[1].setAttribute('y', 16)",
    "has contrast": "document.documentElement.style.setProperty('--soft', '#999')",
    "skips a level": "document.querySelector('h2').outerHTML = '<h5>x</h5>'",
    "has no name": "document.querySelector('button').textContent = ''",
    "an input has no label": "document.body.append(document.createElement('input'))",
    "an image has no": "document.body.append(Object.assign(document.createElement('img'),"
    " {width: 9, height: 9}))",
    "a picture has no": "document.querySelector('figure svg title').remove()",
    "no caption": "document.querySelector('caption').remove()",
    "a head has no scope": "document.querySelector('thead th').removeAttribute('scope')",
    "a row has no head": "document.querySelector('tbody th').removeAttribute('scope')",
    "an id is there twice": "document.querySelector('h1').id = 'main'",
    "not by keyboard": "document.querySelector('.scroll').style.width = '50px'",
    "leads nowhere": "document.querySelector('nav a').href = '#nothing'",
    "of main": "document.body.append(document.createElement('main'))",
}


@pytest.mark.parametrize(("said", "fault"), FAULTS.items(), ids=FAULTS)
def test_the_audit_finds_what_is_broken_on_purpose(
    browser: Browser, pages: dict[str, Path], said: str, fault: str
) -> None:
    browser.show(pages["comparison"], 1000, "light")
    browser.run(fault)
    assert any(said in problem for problem in browser.audit())


@pytest.mark.parametrize("name", ["one", "comparison", "sweep"])
def test_a_page_prints_without_a_cut_and_shows_what_was_folded(
    browser: Browser, pages: dict[str, Path], tmp_path: Path, name: str
) -> None:
    browser.show(pages[name], PAPER_WIDTH, "dark")
    browser.media("dark", "print")
    assert browser.run("return document.documentElement.scrollWidth") <= PAPER_WIDTH
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    # Paper does not scroll: what is wider than its block would be cut off.
    browser.open_all()
    cut = browser.run(
        "return [...document.querySelectorAll('.scroll, pre')].filter(node =>"
        " node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1)"
        ".map(node => node.textContent.slice(0, 40))"
    )
    assert cut == []
    browser.run("for (const fold of document.querySelectorAll('details')) fold.open = false")
    assert [text for text in browser.audit() if "contrast" in text] == []
    shown = browser.run(
        "return [...document.querySelectorAll('nav, .tool, .filter')]"
        ".filter(node => node.checkVisibility()).length"
    )
    assert shown == 0
    paper = browser.pdf()
    (tmp_path / f"{name}.pdf").write_bytes(paper)
    assert paper.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", paper)) >= 3
    assert browser.run("return document.querySelectorAll('details[open]').length") == 0
    # A head with a button in it is not repeated on the next sheet.
    buttons = "dispatchEvent(new Event(arguments[0])); return document.querySelector('th button')"
    assert browser.run(buttons, "beforeprint") is None
    assert browser.run(buttons, "afterprint") is not None
    assert browser.messages() == []


@pytest.mark.parametrize("name", ["one", "comparison", "sweep"])
def test_every_definition_appears_on_focus_and_goes_away_with_escape(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    browser.show(pages[name], 360, "light")
    browser.open_all()
    missing = browser.run("""
        const tip = document.getElementById("tip");
        const terms = [...document.querySelectorAll(".term")].filter(n => n.checkVisibility());
        const missing = terms.length < 15 ? ["there are few terms"] : [];
        for (const term of terms) {
          term.focus({ preventScroll: false });
          const box = tip.getBoundingClientRect();
          const text = tip.querySelector("span")?.textContent || "";
          if (tip.hidden || text.length < 8 || term.getAttribute("aria-describedby") !== "tip"
              || box.left < 0 || box.right > innerWidth) missing.push(term.textContent);
          document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
          if (!tip.hidden) missing.push(`${term.textContent} stays`);
        }
        return missing;""")
    assert missing == []


def test_a_number_says_what_it_is_when_the_pointer_rests_on_it(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.show(pages["comparison"], 1400, "light")
    cell = browser.driver.find_elements(By.CSS_SELECTOR, "#results tbody tr:first-child td")[4]
    browser.run("arguments[0].scrollIntoView({ block: 'center' })", cell)
    ActionChains(browser.driver).move_to_element(cell).perform()
    tip = browser.driver.find_element(By.ID, "tip")
    WebDriverWait(browser.driver, 5, poll_frequency=0.05).until(lambda _: tip.is_displayed())
    assert tip.text.startswith("AMAT\nAverage time of a memory access")


def column(browser: Browser, caption: str, index: int) -> list[str]:
    texts: list[str] = browser.run(
        """
        const table = [...document.querySelectorAll("table")].find(
          n => n.caption.textContent === arguments[0]);
        return [...table.tBodies[0].rows].map(row => row.cells[arguments[1]].textContent);""",
        caption,
        index,
    )
    return texts


def test_tables_sort_by_mouse_and_by_keyboard_and_back(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.show(pages["comparison"], 1400, "light")
    designs = column(browser, "kv: results", 0)
    heads = browser.driver.find_elements(
        By.XPATH, "//table[caption='kv: results']/thead//button[contains(@class,'sort')]"
    )
    time = heads[1]
    browser.run("arguments[0].scrollIntoView({ block: 'center' })", time)
    relative = synthetic.DESIGNS
    rising = [name for name, *_ in sorted(relative, key=lambda entry: entry[4])]
    assert designs != rising
    time.click()
    assert column(browser, "kv: results", 0) == rising
    head = time.find_element(By.XPATH, "..")
    assert head.get_attribute("aria-sort") == "ascending"
    time.send_keys(Keys.ENTER)
    assert column(browser, "kv: results", 0) == rising[::-1]
    assert head.get_attribute("aria-sort") == "descending"
    heads[0].send_keys(Keys.SPACE)
    assert column(browser, "kv: results", 0) == sorted(designs)
    assert head.get_attribute("aria-sort") is None
    heads[0].send_keys(Keys.SPACE)
    heads[0].send_keys(Keys.SPACE)
    assert column(browser, "kv: results", 0) == designs


def test_numbers_sort_by_value_whatever_their_unit(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.show(pages["comparison"], 1400, "light")
    head = browser.driver.find_elements(
        By.XPATH, "//table[caption='kv: results']/thead//button[@data-name='p99.9']"
    )[0]
    head.send_keys(Keys.ENTER)
    slowest = {
        name: synthetic.run("kv", name)["statistics"]["amat"]["p999_ps"]
        for name, *_ in synthetic.DESIGNS
    }
    assert column(browser, "kv: results", 0) == sorted(slowest, key=slowest.__getitem__)
    units = {text.split("\u00a0")[1] for text in column(browser, "kv: results", 9)}
    assert len(units) > 1


def test_a_long_table_shows_the_rows_with_the_words_that_are_asked_for(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.show(pages["sweep"], 1400, "light")
    box = browser.driver.find_element(By.CSS_SELECTOR, "#points input[type=search]")
    box.send_keys("SKYBYTE-W 2mib")
    rows = browser.run(
        "return [...document.querySelectorAll('#points tbody tr')].filter(n => n.checkVisibility())"
        ".map(n => n.cells[2].textContent + n.cells[3].textContent)"
    )
    assert rows == ["skybyte-w2MiB"] * 8
    status = browser.driver.find_element(By.CSS_SELECTOR, "#points [role=status]")
    assert status.text == "8 of 118"


def test_the_choice_of_light_or_dark_stays(browser: Browser, pages: dict[str, Path]) -> None:
    browser.show(pages["one"], 800, "light")

    def colour() -> str:
        return str(browser.run("return getComputedStyle(document.body).backgroundColor"))

    def press() -> str:
        button = browser.driver.find_element(By.CSS_SELECTOR, "header .tool")
        button.send_keys(Keys.ENTER)
        return button.text

    light = colour()
    assert press() == "Theme: light" and colour() == light
    assert press() == "Theme: dark"
    dark = colour()
    assert dark != light and browser.audit() == []
    browser.show(pages["sweep"], 800, "light")
    assert colour() == dark
    assert press() == "Theme: system" and colour() == light


def test_the_command_is_copied_whole(browser: Browser, pages: dict[str, Path]) -> None:
    browser.show(pages["comparison"], 800, "light")
    browser.command("Browser.grantPermissions", permissions=["clipboardReadWrite"])
    button = browser.driver.find_element(By.CSS_SELECTOR, "[data-label=Command] button")
    button.send_keys(Keys.ENTER)
    copied = browser.driver.execute_async_script(
        "navigator.clipboard.readText().then(arguments[0], error => arguments[0](String(error)))"
    )
    assert copied == "entresol run sort.etr kv.etr --machine demo"


def test_without_scripts_the_page_says_the_same(browser: Browser, pages: dict[str, Path]) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.driver.get(pages["comparison"].as_uri())
        driver = browser.driver
        assert driver.find_elements(By.TAG_NAME, "button") == []
        assert "Mean" not in driver.title and driver.find_element(By.TAG_NAME, "table").text
        term = driver.find_element(By.CSS_SELECTOR, "th a.term")
        assert "warm-up" in str(term.get_attribute("title"))
        assert str(term.get_attribute("href")).endswith("#term-execution-time")
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)


def test_the_first_stop_of_the_keyboard_skips_to_the_content(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.show(pages["one"], 800, "light")
    body = browser.driver.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    link = browser.driver.switch_to.active_element
    assert link.text == "Skip to the content" and link.location["y"] >= 0
    link.send_keys(Keys.ENTER)
    assert browser.run("return document.activeElement.id") == "main"
