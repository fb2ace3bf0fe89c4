"""The HTML templates: whatever is put into one is escaped, and a name that it lacks is an error."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def environment() -> Environment:
    """The templates of this package."""
    return Environment(
        loader=PackageLoader("swapbias.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
