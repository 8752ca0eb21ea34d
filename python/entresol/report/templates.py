"""The templates of pages, which hold their HTML: `templates/*.html`, in Jinja's language."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_CODE = re.compile("`([^`]+)`")


def render(name: str, **values: Any) -> str:
    """A template with values. What is text is escaped; the template says what is HTML."""
    return _environment().get_template(name).render(values)


def piece(name: str, *values: Any) -> str:
    """A macro of `pieces.html`."""
    made: str = getattr(_environment().get_template("pieces.html").module, name)(*values)
    return str(made).strip()


@cache
def _environment() -> Environment:
    # Imported here because a command that writes no page needs none of it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"code": _code, "unbroken": _unbroken}
    found.globals["file"] = _file
    return found


def _code(text: str) -> Markup:
    """Text whose words between backquotes are code."""
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _unbroken(text: str) -> Markup:
    """Text whose hyphens are no place for a new line: names of designs have them."""
    from markupsafe import Markup, escape

    return Markup(str(escape(text)).replace("-", "&#8209;"))


def _file(name: str) -> Markup:
    """A style sheet or a script of ours, as it is."""
    from markupsafe import Markup

    return Markup(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))
