"""The report in a real browser: one headless Chromium, started once for this file."""

import io
import json
import os
import shutil

import numpy as np
import pytest

from destiny.report import report
from destiny.run.history import History
from tests import chromium
from tests import report_folders as folders
from tests.test_report import EVIL, poison

CURVES = """(d) => d.data.filter((t) => t.name).map(
    (t) => ({name: t.name, x: [...t.x], y: [...t.y], shown: t.visible}))"""
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


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


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("browser")
    folders.olsr(home / "olsr")
    folders.sdl(home / "sdl")
    folders.reproduced(home / "figure3")
    shutil.copytree(home / "figure3" / "prob-0.4" / "seed-0", home / "pca")
    shutil.copytree(home / "pca", home / "poisoned")
    poison(home / "poisoned")
    for folder in ("olsr", "sdl", "figure3", "pca", "poisoned"):
        report(home / folder)
    return home


@pytest.fixture(scope="module")
def pages(browser, made):
    """Open a report, once: to read plotly takes a second. Whatever the browser complains about is kept."""
    opened, complaints = {}, []

    def open_page(folder, viewport, options):
        address = (made / folder / "report.html").as_uri()
        page = browser.new_context(viewport=viewport, **options).new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda asked: complaints.append(asked.url) if asked.url != address else None)
        page.goto(address)
        page.wait_for_selector("#chart-0 .main-svg")
        return page

    def visit(folder, viewport=DESK, **options):
        key = (folder, viewport["width"])
        if key not in opened:
            opened[key] = open_page(folder, viewport, options)
        return opened[key]

    visit.complaints = complaints
    return visit


@pytest.fixture
def visit(pages):
    """A page of a report; the browser's complaints fail the test."""
    yield pages
    found = [text for text in pages.complaints if not text.startswith("data:image/png")]
    pages.complaints.clear()
    assert found == []


def curves(page, number=0):
    return page.eval_on_selector(f"#chart-{number}", CURVES)


def test_switching_the_axis_by_keyboard_changes_what_is_plotted(visit, made):
    page = visit("pca")
    page.check("#axis input[value=round]", force=True)
    rows = History.from_csv(made / "pca" / "DESTINY" / "history.csv")
    before = curves(page)
    assert [c["name"] for c in before] == ["DESTINY", "DeEPCA"]
    assert before[0]["x"] == rows["round"].tolist()
    np.testing.assert_allclose(before[0]["y"], rows["stationarity"], rtol=1e-3)
    page.focus("#axis input")
    for column, title in (("scalars", "numbers sent"), ("seconds", "seconds")):
        page.keyboard.press("ArrowRight")
        page.wait_for_function(f"document.querySelector('#chart-2').layout.xaxis.title.text == '{title}'")
        for chart in range(3):
            np.testing.assert_allclose(curves(page, chart)[0]["x"], rows[column], rtol=1e-5)
        assert curves(page)[0]["y"] == before[0]["y"]
    assert page.eval_on_selector("#chart-3", "(d) => d.layout.xaxis.title.text") == "component"


def test_the_legend_hides_a_method_by_keyboard_in_all_three_charts(visit):
    page = visit("pca")
    button = page.locator(".legend button", has_text="DeEPCA").first
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    for chart in range(3):
        assert [c["shown"] for c in curves(page, chart)] == [True, False]
    page.keyboard.press(" ")
    assert [c["shown"] for c in curves(page)] == [True, True]


def test_pointing_at_a_curve_tells_its_numbers(visit):
    page = visit("pca")
    page.check("#axis input[value=round]", force=True)
    x, y = page.evaluate("""() => {
        const d = document.querySelector("#chart-0"), box = d.getBoundingClientRect();
        const a = d._fullLayout, k = 5, t = d.data.find((t) => t.name === "DESTINY");
        return [box.x + a._size.l + a.xaxis.d2p(t.x[k]), box.y + a._size.t + a.yaxis.d2p(t.y[k])];
    }""")
    page.mouse.move(x, y)
    page.wait_for_selector("#chart-0 .hovertext")
    told = page.text_content("#chart-0 .hovertext")
    assert "DESTINY" in told
    assert "rounds" in told


@pytest.mark.parametrize("folder", ["figure3", "olsr", "sdl"])
def test_nothing_sticks_out_on_a_phone(visit, folder):
    page = visit(folder, PHONE, is_mobile=True, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    small = page.evaluate("""() => [...document.querySelectorAll("main *")].filter((e) =>
        e.childElementCount === 0 && e.textContent.trim() && !e.closest("svg")
        && parseFloat(getComputedStyle(e).fontSize) < 12)
        .map((e) => e.textContent)""")
    assert small == []
    assert page.eval_on_selector("#chart-0", "(d) => d._fullLayout.dragmode") is False  # a finger scrolls


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_curves_are_seen(visit, scheme):
    from matplotlib.image import imread

    page = visit("figure3")
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function("""() => document.querySelector("#chart-0").layout.font.color
        === getComputedStyle(document.documentElement).getPropertyValue("--quiet").trim()""")
    image = imread(io.BytesIO(page.locator("#chart-0").screenshot()))[..., :3]
    for name in ("--paper", "--c0", "--c1"):
        style = f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()"
        colour = page.evaluate(style)
        rgb = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
        assert (np.abs(image - rgb).max(axis=2) < 0.02).sum() > 50, name


def test_all_charts_are_there_in_print(visit):
    page = visit("figure3")
    undrawn = "[...document.querySelectorAll('.chart')].filter((d) => !d._fullLayout).length"
    assert page.evaluate(undrawn) > 0  # those far below wait until they come near
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    drawn = page.evaluate("[...document.querySelectorAll('.chart')].map((d) => d._fullLayout.width)")
    assert len(drawn) == 2 * 3 + 1  # two panels, and the one spectrum they share
    assert max(drawn) <= 480
    right = "(e) => e.getBoundingClientRect().right"
    edge = page.evaluate(f"Math.max(...[...document.querySelectorAll('.chart, table, svg')].map({right}))")
    assert edge <= page.eval_on_selector("main", right) + 1
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.eval_on_selector("#chart-0", "(d) => d._fullLayout.width") > 300


def test_texts_of_files_do_not_run(visit, made):
    page = visit("poisoned")
    assert page.evaluate("typeof hacked") == "undefined"
    assert EVIL in page.text_content("main")
    label = json.loads((made / "poisoned" / "summary.json").read_text())[1]["label"]
    assert label in page.locator(".legend").first.text_content()
    page.locator(".legend button").nth(1).click()
    assert [c["shown"] for c in curves(page)] == [True, False]
