"""Configurations as TOML."""

from __future__ import annotations

from entresol.core import Config


def toml(effective: Config) -> str:
    """A configuration as text that `--config` reads back."""
    lines: list[str] = []
    for section, values in effective.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_value(text)}" for key, text in values.items()]
        lines.append("")
    return "\n".join(lines)


def _value(text: str) -> str:
    if text in ("true", "false") or text.isdigit():
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
