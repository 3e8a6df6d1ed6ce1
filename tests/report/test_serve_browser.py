"""`destiny serve` in a real browser."""

import threading

import pytest

from destiny.report.live.server import open_server
from tests.helpers import live_folders
from tests.helpers import report_folders as folders

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
POINTS = "document.querySelector('#chart-0 .line').getAttribute('d').split('L').length"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("live")
    folders.sdl(home / "done")
    folders.poison(folders.pca(home / "poisoned") and home / "poisoned")
    live_folders.running(home / "now")
    live_folders.running(home / "evil", label=live_folders.EVIL[:20], problem=live_folders.EVIL)
    live_folders.agent(home / "a", "clinic-a", {"clinic-b": True, live_folders.EVIL: False})
    return home


@pytest.fixture(scope="module")
def address(home):
    server = open_server(home, 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def visit(browser, address):
    """Open a page; what the browser complains about, and what it asks of others, fails the test."""
    complaints, contexts = [], []

    def check_address(request):
        if not request.url.startswith((address, "data:")):
            complaints.append(request.url)

    def visit(path, viewport=DESK, **options):
        contexts.append(browser.new_context(viewport=viewport, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request", lambda asked: asked.url.startswith((address, "data:")) or complaints.append(asked.url)
        )
        page.goto(address + path)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


def test_by_keyboard_from_the_list_to_a_run_that_grows(visit, home):
    page = visit("/")
    page.get_by_role("link", name="now", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#chart-0 .line")
    assert page.get_by_role("heading", level=1).inner_text() == "PCA of iris"
    assert page.evaluate(POINTS) == 5
    page.get_by_text("The curves as a table").click()
    button = page.get_by_role("button", name="DESTINY")
    button.focus()
    live_folders.running(home / "now", rounds=8)
    page.get_by_text("running: round 70 of at most 900").wait_for()
    assert page.evaluate(POINTS) == 8
    assert button.evaluate("(b) => b === document.activeElement")  # where the keyboard was
    assert page.locator("details[open]").count() == 1
    page.keyboard.press("Enter")
    assert page.locator("#chart-0 .line").count() == 0
    live_folders.running(home / "now", rounds=9)
    page.get_by_text("running: round 80 of at most 900").wait_for()
    assert page.get_by_role("button", name="DESTINY").get_attribute("aria-pressed") == "false"
    live_folders.running(home / "now")


def test_who_waits_for_whom_is_drawn_and_told(visit):
    page = visit("/agents/trial")
    assert page.locator("path.waits").count() == 1
    picture = page.get_by_role("img", name="clinic-a waits for clinic-b")
    assert picture.count() == 1
    assert page.locator("#chart-0 .line").count() == 1
    assert page.get_by_role("table", name="Agents whose files are in this folder").count() == 1


def test_texts_of_files_do_not_run(visit):
    for path in ("/", "/job/evil", "/job/poisoned", "/agents/trial"):
        page = visit(path)
        page.wait_for_timeout(50)
        assert page.evaluate("typeof hacked") == "undefined"
        assert page.locator("main img, main script").count() == 0
        assert "<script>" in page.text_content("main")


@pytest.mark.parametrize("path", ["/", "/job/now", "/agents/trial", "/job/done"])
def test_nothing_sticks_out_on_a_phone(visit, path):
    page = visit(path, PHONE, is_mobile=True, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_a_dark_screen_and_a_screen_reader(visit):
    page = visit("/job/now", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 28)"
    assert page.locator("html").get_attribute("lang") == "en"
    levels = page.locator("h1, h2, h3").evaluate_all("(all) => all.map((h) => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert page.get_by_role("navigation", name="Back").get_by_role("link", name="All results").count() == 1
    for chart in page.locator(".chart").all():
        assert len(chart.get_attribute("aria-label")) > 20
    assert page.get_by_role("status").inner_text() == "Live."
