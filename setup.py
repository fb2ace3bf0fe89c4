"""What pyproject.toml cannot say: packages found by name, and a README whose links hold outside of the checkout."""

import re
import tomllib
from pathlib import Path

from setuptools import find_namespace_packages, setup

# Leaves keep their short folder names at the top of the checkout and land inside the package, so that no generic
# name (metrics, builders) is installed into site-packages. Their folders of data are packages to setuptools.
PLACES = {
    "swapbias": "swapbias",
    "swapbias.builders": "builders",
    "swapbias.metrics": "metrics",
    "swapbias.datasets_src": "datasets_src",
}
PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?!https?://|#)")


def readme() -> str:
    """README.md with links to files of the release that is built, as an index of packages shows it."""
    source, tag = PROJECT["urls"]["Repository"], f"v{PROJECT['version']}"
    text = Path("README.md").read_text(encoding="utf-8")
    return LINK.sub(
        lambda found: f"{found[0]}{source}/{'raw' if found[1] else 'blob'}/{tag}/", text
    )


setup(
    package_dir=PLACES,
    packages=[
        name
        for package, folder in PLACES.items()
        for name in (package, *(f"{package}.{one}" for one in find_namespace_packages(folder)))
        if "__pycache__" not in name
    ],
    long_description=readme(),
    long_description_content_type="text/markdown",
)
