"""The report in a real browser: one headless Chromium, started once for this file."""

import io
import json
import re
import shutil

import numpy as np
import pytest

from destiny.report import report
from destiny.report.charts.curves import AXES
from destiny.run.history import History
from tests.helpers import report_folders as folders

CURVES = """(d) => ({
    grid: [...d.querySelectorAll(".grid")].map(
        (g) => [g.getAttribute("class"), Number(g.dataset.at), g.getAttribute("d")]),
    lines: [...d.querySelectorAll(".line")].map((line) => [line.dataset.key, line.getAttribute("d")]),
})"""
TITLE = "(d) => d.querySelector('.title.x').textContent"
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("browser")
    folders.olsr(home / "olsr")
    folders.sdl(home / "sdl")
    folders.reproduced(home / "figure3")
    shutil.copytree(home / "figure3" / "prob-0.4" / "seed-0", home / "pca")
    shutil.copytree(home / "pca", home / "poisoned")
    folders.poison(home / "poisoned")
    for folder in ("olsr", "sdl", "figure3", "pca", "poisoned"):
        report(home / folder)
    return home


@pytest.fixture(scope="module")
def pages(browser, made):
    """Open a report, once. Whatever the browser complains about is kept."""
    opened, complaints = {}, []

    def open_page(folder, viewport, options):
        address = (made / folder / "report.html").as_uri()
        page = browser.new_context(viewport=viewport, **options).new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda asked: complaints.append(asked.url) if asked.url != address else None)
        page.goto(address)
        page.wait_for_selector("#chart-0 .plot")
        return page

    def visit(folder, viewport=DESK, **options):
        key = (folder, viewport["width"])
        if key not in opened:
            opened[key] = open_page(folder, viewport, options)
        opened[key].evaluate("scrollTo({ top: 0, behavior: 'instant' })")  # where another test has left it
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


def numbers(path):
    return np.array(re.findall(r"-?[\d.]+", path), dtype=float)


def curves(page, number=0):
    """x and y of the lines of a chart by name, from where they are drawn and where the grid is."""
    seen = page.eval_on_selector(f"#chart-{number}", CURVES)

    def scale(axis):
        lines = [(numbers(d)[axis], at) for kind, at, d in seen["grid"] if kind == ("grid x", "grid y")[axis]]
        assert len(lines) > 1
        return np.polyfit(*np.transpose(lines), 1)

    points = {name: numbers(d).reshape(-1, 2) for name, d in seen["lines"]}
    return {
        name: (np.polyval(scale(0), where[:, 0]), 10 ** np.polyval(scale(1), where[:, 1]))
        for name, where in points.items()
    }


def show_chart(page, number):
    """Scroll to a chart: it is drawn when it comes near."""
    page.locator(f"#chart-{number}").scroll_into_view_if_needed()
    page.wait_for_selector(f"#chart-{number} .plot")


def test_switching_the_axis_by_keyboard_changes_what_is_plotted(visit, made):
    page = visit("pca")
    page.check("#axis input[value=round]", force=True)
    rows = History.from_csv(made / "pca" / "DESTINY" / "history.csv")
    before = curves(page)
    assert list(before) == ["DESTINY", "DeEPCA"]
    np.testing.assert_allclose(before["DESTINY"][0], rows["round"], atol=0.01 * rows["round"][-1] / 100)
    np.testing.assert_allclose(before["DESTINY"][1], rows["stationarity"], rtol=5e-3)
    page.focus("#axis input")
    for column, title in AXES.items():
        if column == "round":
            continue
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(f"#chart-2 .title.x:text-is('{title}')")
        for chart in range(3):
            x, _ = curves(page, chart)["DESTINY"]
            expected = rows[column][-len(x) :]  # without the start, which has no consensus to speak of
            np.testing.assert_allclose(x, expected, atol=1e-3 * rows[column][-1])
        np.testing.assert_allclose(curves(page)["DESTINY"][1], before["DESTINY"][1], rtol=1e-9)
    show_chart(page, 3)
    assert page.eval_on_selector("#chart-3", TITLE) == "component"


def test_the_legend_hides_a_method_by_keyboard_in_all_three_charts(visit):
    page = visit("pca")
    button = page.locator(".legend button", has_text="DeEPCA").first
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    for chart in range(3):
        assert list(curves(page, chart)) == ["DESTINY"]
    page.keyboard.press(" ")
    assert list(curves(page)) == ["DESTINY", "DeEPCA"]


def test_pointing_at_a_curve_tells_its_numbers(visit, made):
    page = visit("pca")
    page.check("#axis input[value=round]", force=True)
    rows = History.from_csv(made / "pca" / "DESTINY" / "history.csv")
    box = page.locator("#chart-0").bounding_box()
    paths = dict(page.eval_on_selector("#chart-0", CURVES)["lines"])
    x, y = numbers(paths["DESTINY"]).reshape(-1, 2)[5]
    page.mouse.move(box["x"] + x, box["y"] + y)
    told = page.locator("#chart-0 .hover").inner_text().split("\n")
    assert told[:2] == ["DESTINY", f"{rows['round'][5]:.0f} rounds"]
    assert float(told[2]) == pytest.approx(rows["stationarity"][5], rel=5e-3)
    page.mouse.move(0, 0)
    assert page.locator("#chart-0 .hover").count() == 0


def test_dragging_looks_closer_and_a_double_click_goes_back(visit):
    page = visit("pca")
    page.check("#axis input[value=round]", force=True)
    box = page.locator("#chart-0").bounding_box()
    ticks = "[...document.querySelectorAll('#chart-0 .grid.x')].map((g) => Number(g.dataset.at))"
    before = page.evaluate(ticks)
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.6 * box["height"])
    assert page.locator("#chart-0 .selection").count() == 1
    page.mouse.up()
    closer = page.evaluate(ticks)
    assert max(closer) - min(closer) < 0.35 * (max(before) - min(before))
    assert min(closer) > 0
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.evaluate(ticks) == before


def test_charts_have_names_for_screen_readers(visit):
    page = visit("pca")
    show_chart(page, 3)
    names = page.locator(".chart").evaluate_all("(charts) => charts.map((c) => c.getAttribute('aria-label'))")
    for name, words in zip(
        names, ("substationarity", "consensus", "feasibility", "Eigenvalues"), strict=True
    ):
        assert words in name
        assert "DESTINY" in name
    for name in names:
        assert page.get_by_role("img", name=name).count() == 1


@pytest.mark.parametrize("folder", ["figure3", "olsr", "sdl"])
def test_nothing_sticks_out_on_a_phone(visit, folder):
    page = visit(folder, PHONE, is_mobile=True, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    small = page.evaluate("""() => [...document.querySelectorAll("main *")].filter((e) =>
        e.childElementCount === 0 && e.textContent.trim() && !e.closest("svg")
        && parseFloat(getComputedStyle(e).fontSize) < 12)
        .map((e) => e.textContent)""")
    assert small == []
    assert (
        page.eval_on_selector("#chart-0", "(d) => getComputedStyle(d).touchAction") == "pan-y"
    )  # a finger scrolls


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_curves_are_seen(visit, scheme):
    from matplotlib.image import imread

    page = visit("figure3")
    page.emulate_media(color_scheme=scheme)
    image = imread(io.BytesIO(page.locator("#chart-0").screenshot()))[..., :3]
    for name in ("--paper", "--c0", "--c1"):
        style = f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()"
        color = page.evaluate(style)
        rgb = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
        assert (np.abs(image - rgb).max(axis=2) < 0.02).sum() > 50, name


def test_all_charts_are_there_in_print(visit):
    page = visit("figure3")
    undrawn = "[...document.querySelectorAll('.chart')].filter((d) => !d.querySelector('.plot')).length"
    assert page.evaluate(undrawn) > 0  # those far below wait until they come near
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    drawn = page.evaluate(
        "[...document.querySelectorAll('.chart')].map((d) => d.querySelector('.plot').clientWidth)"
    )
    assert len(drawn) == 2 * 3 + 1  # two panels, and the one spectrum they share
    assert max(drawn) <= 480
    right = "(e) => e.getBoundingClientRect().right"
    edge = page.evaluate(f"Math.max(...[...document.querySelectorAll('.chart, table, svg')].map({right}))")
    assert edge <= page.eval_on_selector("main", right) + 1
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.eval_on_selector("#chart-0", "(d) => d.querySelector('.plot').clientWidth") > 300


def test_texts_of_files_do_not_run(visit, made):
    page = visit("poisoned")
    assert page.evaluate("typeof hacked") == "undefined"
    assert folders.EVIL in page.text_content("main")
    label = json.loads((made / "poisoned" / "summary.json").read_text())[1]["label"]
    assert label in page.locator(".legend").first.text_content()
    page.locator(".legend button").nth(1).click()
    assert list(curves(page)) == ["DESTINY"]
