"""The packages of the wheel: rooms and leaves, found by name; folders of data are packages to setuptools."""

from setuptools import find_namespace_packages, setup

# Leaves keep their short folder names at the top of the checkout and land inside the package, so that no generic
# name (metrics, builders) is installed into site-packages.
PLACES = {
    "swapbias": "swapbias",
    "swapbias.builders": "builders",
    "swapbias.metrics": "metrics",
    "swapbias.datasets_src": "datasets_src",
}

setup(
    package_dir=PLACES,
    packages=[
        name
        for package, folder in PLACES.items()
        for name in (package, *(f"{package}.{one}" for one in find_namespace_packages(folder)))
        if "__pycache__" not in name
    ],
)
