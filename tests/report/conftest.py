"""One headless Chromium for each file of tests: while it is there, its event loop runs in this thread."""

import os

import pytest

from tests.helpers import chromium


def lacking(what):
    told = f"the report is not tested in a browser: {what}"
    if os.environ.get("DESTINY_NEEDS_CHROMIUM"):
        pytest.fail(told)
    pytest.skip(told)


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("playwright is not installed (the extra dev)")
    path = chromium.find()
    if path is None:
        lacking(f"none of {', '.join(chromium.NAMES)} was found; DESTINY_CHROMIUM may name one")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=chromium.FLAGS)
        yield found
        found.close()
