"""Keys at the top of a README.md's YAML header, set so that all else in the file stays byte for byte."""

from collections.abc import Mapping
from typing import Any

import yaml

from swapbias.hub.header import compose, dump, load, native, newline, split
from swapbias.hub.header_places import column, end_of, line_after


def with_keys(readme: str, values: Mapping[str, Any], *, where: str) -> str:
    """The README with these keys in its header; a key that has its value already is not touched.

    Args:
        readme: the whole file; blank where there is none.
        values: native values by key; new keys go to the end of the header, which is made where there is none.
        where: names the file in errors.

    Raises:
        ValueError: a header that cannot be read, or is not written as a line for each key.
    """
    parts = split(readme)
    line_end = newline(readme)
    before = load(parts.header, where, first_line=parts.first_line)
    wanted = {key: native(value) for key, value in values.items()}
    changed = {key: value for key, value in wanted.items() if key not in before or before[key] != value}
    if not changed:
        return readme
    root = compose(parts.header, where, first_line=parts.first_line)
    if isinstance(root, yaml.MappingNode) and (root.flow_style or column(parts.header, root.start_mark.index)):
        raise ValueError(
            f"{where}: its YAML header is within brackets or indented. Write a line 'key: value' for each."
        )
    header = _replaced(parts.header, root, changed, line_end)
    if load(header, where, first_line=parts.first_line) != {**before, **wanted}:
        raise ValueError(f"{where}: its YAML header cannot be edited safely. Write a plain line for each key.")
    if parts.has_header:
        return parts.before + header + parts.after
    mark = "\ufeff" if readme.startswith("\ufeff") else ""
    return f"{mark}---{line_end}{header}---{line_end}{readme.removeprefix(mark)}"


def _replaced(header: str, root: yaml.Node | None, changed: Mapping[str, Any], line_end: str) -> str:
    """The header with the lines of these keys made anew, and those it lacks at its end."""
    lines = {key: dump({key: value}).replace("\n", line_end) for key, value in changed.items()}
    pairs = list(root.value) if isinstance(root, yaml.MappingNode) else []
    added = [text for key, text in lines.items() if not any(one.value == key for one, _ in pairs)]
    if added and header and not header.endswith("\n"):
        header += line_end
    made = header + "".join(added)
    for key, value in reversed(pairs):
        if key.value in lines:
            start, after = key.start_mark.index, line_after(header, end_of(value))
            made = made[:start] + lines[key.value] + made[after:]
    return made
