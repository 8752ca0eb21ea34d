"""One version, in Cargo.toml; what repeats it says the same."""

from __future__ import annotations

import re
import tomllib

from conftest import ROOT, Entresol


def test_what_repeats_the_version_says_the_same(entresol_command: Entresol) -> None:
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert entresol_command("--version").out == f"entresol {version}\n"
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", citation, flags=re.MULTILINE) == [version]
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert changes[0] in ("Unreleased", version)
    assert version in changes[:2]
