"""One browser for all pages."""

import pytest

from tests.report.browser import Browser, find


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    program = find()
    if program is None:
        pytest.skip("needs Chromium on the path: apt-get install chromium")
    opened = Browser(program, tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()
