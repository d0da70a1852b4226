"""The page in a real browser: every tab, both languages, a phone, the keyboard alone."""

import csv
import dataclasses
import io
import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import malmoi
from malmoi.bundle.bundle import DEFAULT, shipped_models
from malmoi.corpus import Corpus
from malmoi.serve.api_keys import make_key
from malmoi.serve.settings import ServerSettings, Uploads
from malmoi.serve.state import Resources, load_resources
from tests.support import ROOT, graphs
from tests.support.servers import Served, serving

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no browser at {CHROMIUM}"),
    pytest.mark.skipif(
        DEFAULT not in shipped_models(), reason=f"the model {DEFAULT} is not in this checkout"
    ),
]

COMPARED = "배가 아파요\nMy stomach hurts\n배를 타고 섬에 갔다"
NOTE = "pt는 HTN, DM 있으며 CXR상 pneumonia 의심. 아버지가 간암."
WORDS = "배를 타고 바다에 나간다\n배가 달고 맛있다\n배가 아파서 병원에 갔다"
# A tab's deep link, what must then be seen, and words of its heading in both languages.
TABS = {
    "search": ({"q": "제 상품 언제 도착해요?"}, ".hit mark", "뜻으로 찾기", "Search by meaning"),
    "compare": ({"q": COMPARED}, ".heat td", "문장 견주기", "Compare sentences"),
    "terms": ({"q": "DM nephropathy"}, ".score", "용어 잇기", "Link terms"),
    "words": ({"q": WORDS, "word": "배"}, "svg.plot circle", "문장 속 낱말", "Words in their"),
    "map": ({}, "svg.plot circle", "말뭉치 지도", "Map of a corpus"),
}
AXE = ROOT / "build/axe/node_modules/axe-core/axe.min.js"
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
VIOLATIONS = """async () => (await axe.run()).violations.map(
  (one) => `${one.id}: ${one.nodes.map((node) => node.target).join(" ")}`)"""


def check_axe(page: Any) -> None:
    """Let axe-core, where it is, look for what keeps people from reading or using the page."""
    if AXE.exists():
        page.evaluate(AXE.read_text("utf-8"))
        assert page.evaluate(VIOLATIONS) == []


def test_axe_core_is_there() -> None:
    """Says in the report why the checks above were left out."""
    if not AXE.exists():
        pytest.skip(f"there is no axe-core; .ci/run puts it into {AXE.relative_to(ROOT)}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resources]:
    """Everything that is served when nothing is named, and a tiny reranker."""
    folder = graphs.write_reranker(tmp_path_factory.mktemp("models") / "tiny-reranker")
    reranker = malmoi.load(folder)
    resources = dataclasses.replace(load_resources(reranker="none"), reranker=reranker)
    yield resources
    resources.close()


@pytest.fixture(scope="module")
def site(whole: Resources) -> Iterator[Served]:
    with serving(whole) as served:
        yield served


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that lets no complaint of the browser pass."""
    context = browser.new_context(viewport={"width": 1180, "height": 860})
    opened, complaints = context.new_page(), []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.complaints = complaints
    yield opened
    context.close()


def address(site: Served, tab: str, lang: str) -> str:
    return f"{site.url}/#/{tab}?{urllib.parse.urlencode(TABS[tab][0] | {'lang': lang})}"


@pytest.mark.parametrize("lang", ["ko", "en"])
@pytest.mark.parametrize("tab", TABS)
def test_every_tab_by_its_link(page: Any, site: Served, tab: str, lang: str) -> None:
    page.goto(address(site, tab, lang))
    page.wait_for_selector(TABS[tab][1])
    assert TABS[tab][2 if lang == "ko" else 3] in page.inner_text("h1")
    assert page.get_attribute("html", "lang") == lang
    assert page.complaints == []
    check_axe(page)


@pytest.mark.parametrize("width", [360, 1920])
@pytest.mark.parametrize("tab", TABS)
def test_every_width_in_the_dark(browser: Any, site: Served, tab: str, width: int) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 740}, color_scheme="dark", has_touch=True
    )
    page = context.new_page()
    page.goto(address(site, tab, "ko"))
    page.wait_for_selector(TABS[tab][1], state="attached")
    assert page.evaluate(WIDE) <= 0
    small = """() => [...document.querySelectorAll("main button, main select, .tab")]
      .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 26).length"""
    assert page.evaluate(small) == 0
    check_axe(page)
    context.close()


def test_the_keyboard_alone(page: Any, site: Served) -> None:
    page.goto(f"{site.url}/#/search?lang=en")
    page.wait_for_selector("#query")
    press = page.keyboard.press
    press("Tab")
    assert focused(page) == "Skip to content"
    for expected in ("한국어", "English", "Search"):
        press("Tab")
        assert focused(page) == expected
    for expected in ("Compare", "Terms", "Words", "Map", "Search"):
        press("ArrowRight")
        page.wait_for_function("text => document.activeElement.textContent === text", arg=expected)
    press("Tab")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.type("I want my money back")
    press("Enter")
    page.wait_for_selector(".hit")
    assert "q=I+want+my+money+back" in page.url
    press("Tab")  # the button
    press("Tab")
    assert focused(page).startswith("Options")
    press("Enter")
    press("Tab")  # the first of the modes
    press("Tab")
    press("Enter")
    page.wait_for_function("location.hash.includes('mode=dense')")
    page.wait_for_selector(".hit")
    # Past the skip link's target, which takes nobody to another tab.
    page.focus("#skip")
    press("Enter")
    assert page.evaluate("document.activeElement.id") == "panel" and "mode=dense" in page.url
    # The other tabs, from the tab row on.
    page.focus("#tab-search")
    press("ArrowRight")
    page.wait_for_selector("#sentences")
    press("Tab")
    page.keyboard.type("배가 아파요\nMy stomach hurts")
    press("Control+Enter")
    page.wait_for_selector(".heat td")
    page.focus("#tab-compare")
    press("End")
    page.wait_for_selector(".legend button")
    press("Tab")
    press("Enter")
    page.wait_for_selector('.legend button[aria-pressed="true"]')
    assert page.complaints == []


def test_a_late_answer_leaves_the_address_of_another_tab_alone(page: Any, site: Served) -> None:
    held: list[Any] = []
    page.route("**/v1/map", lambda route: held.append(route))
    page.goto(f"{site.url}/#/map?lang=en")
    page.wait_for_selector(".status")
    page.click("#tab-search")
    page.fill("#query", "I want my money back")
    page.press("#query", "Enter")
    page.wait_for_selector(".hit")
    with page.expect_response("**/v1/map"):
        held[0].continue_()
    page.wait_for_timeout(200)  # the page reads the answer, which no selector shows
    assert "q=I+want+my+money+back" in page.url
    assert page.complaints == []


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.textContent"))


@pytest.mark.filterwarnings("ignore::malmoi.errors.CutWarning")  # the tiny model reads little
@pytest.mark.parametrize(("lang", "width"), [("ko", 1180), ("en", 375)])
def test_what_reranking_changed(page: Any, site: Served, lang: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    page.goto(address(site, "search", lang))
    page.wait_for_selector(".hit")
    assert page.query_selector(".slope") is None
    first = page.locator(".hit .text").all_inner_texts()
    page.click("#options summary")
    page.check("#rerank")
    page.wait_for_selector(".effect")
    page.click(".effect summary")
    assert "rerank=1" in page.url
    before, after = (page.locator(".slope-list").nth(i) for i in (0, 1))
    assert before.locator(".slope-text").all_inner_texts() == first
    texts = page.locator(".hit .text").all_inner_texts()
    assert after.locator(".slope-text").all_inner_texts() == texts
    # Each document that is on both sides has its line; the others show their place beyond.
    assert page.locator(".slope-line").count() == len(set(first) & set(texts))
    assert before.locator(".badge").count() == len(set(first) - set(texts))
    assert page.evaluate(WIDE) <= 0
    assert page.complaints == []
    check_axe(page)


def test_languages_change_in_place_and_are_kept(page: Any, site: Served) -> None:
    page.goto(f"{site.url}/#/terms?kind=note&lang=ko")
    page.fill("#term", NOTE)
    page.click("button.primary")
    page.wait_for_selector(".mention")
    page.click("[data-lang=en]")
    page.wait_for_selector(".mention")
    assert page.inner_text("h1") == "Link terms" and "lang=en" in page.url
    page.goto(f"{site.url}/")
    page.wait_for_selector("#query")
    assert page.inner_text("h1") == "Search by meaning"


def test_decisions_about_a_note_are_exported_and_it_stays_out_of_the_address(
    page: Any, site: Served
) -> None:
    page.goto(f"{site.url}/#/terms?kind=note&lang=en")
    page.fill("#term", NOTE)
    page.click("button.primary")
    page.wait_for_selector(".mention")
    title = page.locator(".mention.k-suspected").first.get_attribute("title")
    assert (title or "").startswith("possible: '의심' (cues.tsv row ")
    assert "q=" not in page.url and "HTN" not in urllib.parse.unquote(page.url)
    assert page.locator(".mention").first.evaluate("(one) => one === document.activeElement")
    page.keyboard.press("a")  # the keys work at once
    page.keyboard.press("r")
    assert page.locator(".mention[data-decision=accept]").inner_text() == "HTN"
    assert page.locator(".mention[data-decision=reject]").inner_text() == "DM"
    with page.expect_download() as started:
        page.get_by_role("button", name="Export 2 decisions").click()
    table = Path(started.value.path()).read_text("utf-8").splitlines()
    assert [line.split("\t")[0] for line in table] == ["mention", "HTN", "DM"]
    assert [line.split("\t")[2] for line in table[1:]] == ["accept", "reject"]
    assert page.complaints == []


def test_the_status_is_changed_and_the_next_note_comes(page: Any, site: Served) -> None:
    page.goto(f"{site.url}/#/terms?kind=note&lang=en")
    page.fill("#term", NOTE)
    lines = f'{{"text": {json.dumps(NOTE)}}}\n'.encode()
    files = {"name": "notes.jsonl", "mimeType": "application/json", "buffer": lines}
    page.set_input_files("input[type=file]", files)
    page.get_by_text("1 note waiting").wait_for()
    page.click("button.primary")
    page.wait_for_selector(".mention")
    page.focus(".mention")
    page.keyboard.press("s")  # HTN: present → denied
    page.get_by_label("Whose").select_option("family")
    page.focus(".mention")
    page.keyboard.press("n")
    page.get_by_text("0 notes waiting").wait_for()
    page.wait_for_selector(".mention:focus")
    assert "HTN" not in urllib.parse.unquote(page.url)
    with page.expect_download() as started:
        page.get_by_role("button", name="Export 1 decision").click()
    row = Path(started.value.path()).read_text("utf-8").splitlines()[1].split("\t")
    assert (row[0], *row[2:6]) == ("HTN", "change", "", "negated", "family")
    assert page.complaints == []


def test_what_is_said_of_a_mention_has_a_sign_and_a_legend(page: Any, site: Served) -> None:
    page.goto(f"{site.url}/#/terms?kind=note&lang=en")
    page.fill("#term", f"환자명: 홍길동. {NOTE} No chest pain. 뇌경색 예방 위해 투약.")
    page.click("button.primary")
    page.wait_for_selector(".mention")
    signs = page.locator(".mention").evaluate_all(
        "(all) => Object.fromEntries(all.map((one) => [one.textContent, one.dataset.sign]))"
    )
    for mention, sign in (("HTN", "●"), ("pneumonia", "?"), ("간암", "◇"), ("chest pain", "×")):
        assert signs[mention] == sign
    legend = page.locator(".kinds li").all_inner_texts()
    assert len(legend) == 7 and any(one.split()[:2] == ["◇", "family"] for one in legend)
    label = page.get_by_role("button", name="pneumonia, suspected")
    page.emulate_media(color_scheme="dark")
    assert label.count() == 1
    check_axe(page)
    # Redacted: in place, so that mentions stay where they are; and both as a file.
    page.check("#redact")
    page.get_by_role("button", name="Save the redacted text").wait_for()
    assert "환자명: ***." in page.inner_text(".note") and "홍길동" not in page.inner_text(".note")
    with page.expect_download() as started:
        page.get_by_role("button", name="Save as JSON").click()
    saved = json.loads(Path(started.value.path()).read_text("utf-8"))
    assert "홍길동" not in saved["text"]
    found = {one["mention"]: one for one in saved["mentions"]}
    assert found["간암"]["experiencer"] == "family" and found["HTN"]["code"] == "I10"
    # Also a note in which there is no term.
    page.fill("#term", "환자명: 홍길동.")
    page.click("button.primary")
    page.get_by_text("No term was found").wait_for()
    page.check("#redact")
    page.locator(".note", has_text="환자명: ***.").wait_for()
    assert page.complaints == []


def test_the_slider_moves_through_the_layers(page: Any, site: Served) -> None:
    page.goto(address(site, "words", "en"))
    page.wait_for_selector("svg.plot circle")
    page.focus("#layer")
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    page.wait_for_selector("h2:has-text('layer 0')")
    assert "layer=0" in page.url


def test_what_is_missing_is_explained(page: Any, whole: Resources) -> None:
    with serving(Resources(whole.encoder)) as bare:
        for tab, remedy in (("search", "--corpus"), ("terms", "--lexicon"), ("map", "--corpus")):
            page.goto(f"{bare.url}/#/{tab}?lang=en")
            page.wait_for_selector(f".notice:has-text('{remedy}')")  # not the last tab's
            assert remedy in page.inner_text(".notice")
            if tab == "search":  # a first visit: how to begin, and the samples
                commands = page.locator(".command code").all_inner_texts()
                assert [one.split()[1] for one in commands] == ["index", "serve", "serve"]
                check_axe(page)
    page.goto("about:blank")
    assert page.complaints == []


def test_a_stopped_server_is_explained(page: Any, whole: Resources) -> None:
    with serving(Resources(whole.encoder)) as bare:
        page.goto(f"{bare.url}/#/compare?lang=en")
        page.wait_for_selector("#sentences")
    page.fill("#sentences", COMPARED)
    page.click(".primary")
    page.wait_for_selector(".notice.bad")
    assert "cannot be reached" in page.inner_text(".notice.bad")


def test_a_key_is_asked_for(page: Any, whole: Resources, tmp_path: Path) -> None:
    key = make_key("reader", tmp_path / "keys")
    with serving(Resources(whole.encoder), ServerSettings(keys=tmp_path / "keys")) as locked:
        page.goto(f"{locked.url}/#/compare?lang=en")
        page.wait_for_selector("#key-input")
        page.fill("#key-input", key)
        page.keyboard.press("Enter")
        page.wait_for_selector("#sentences")
        page.goto("about:blank")


FORMULA = '=HYPERLINK("http://x","y")'


@pytest.fixture(scope="module")
def company(whole: Resources, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A folder of documents behind a server that takes files."""
    folder = tmp_path_factory.mktemp("company")
    files = {f"rooms/room{i:02}.md": f"# Room {i}\n\nIt has {i} chairs.\n" for i in range(12)}
    files["rules/휴가.md"] = (
        "# 휴가 규정\n\n## 연차\n\n연차는 15일이다.\n\n## 병가\n\n병가는 30일이다.\n"
    )
    files["long.md"] = "# Long\n" + "".join(f"\n## Part {i}\n\nText {i}.\n" for i in range(70))
    files["rules/unsafe.txt"] = f"{FORMULA} <img src=x onerror=alert(1)> <b>연차표</b>"
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    corpus = Corpus.open(folder / "company.malmoi", whole.encoder, words="bigrams")
    corpus.sync([folder / "rooms", folder / "rules", folder / "long.md"])
    resources = Resources(whole.encoder, None, {"company": corpus})
    with serving(resources, ServerSettings(uploads=Uploads(files=2))) as served:
        yield served


def ask(page: Any, query: str) -> None:
    page.fill("#query", query)
    with page.expect_response("**/v1/search"):
        page.press("#query", "Enter")
    page.wait_for_selector(".hit")


def test_documents_context_filters_and_pages(page: Any, company: Served) -> None:
    page.goto(f"{company.url}/#/search?lang=ko")
    page.wait_for_selector(".chip")
    assert all(one.endswith("나요?") for one in page.locator(".chip").all_inner_texts())
    page.click(".chip >> nth=0")  # a question that the corpus answers
    page.wait_for_selector(".hit")
    ask(page, "연차는 며칠인가요")
    first = page.locator(".hit").first
    assert first.locator("h2").inner_text() == "휴가 규정"
    assert first.locator(".document").inner_text() == "rules/휴가.md"
    assert first.locator(".badge").first.inner_text() == "md"
    assert first.locator(".where").first.inner_text() == "연차"
    # The document at the passage, by keyboard; the address stays as it is, and so does the focus.
    before = page.url
    first.locator(".open").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .here mark")
    assert "연차는 15일" in page.inner_text("dialog .here")
    assert "병가는 30일" in page.inner_text("dialog .context")
    check_axe(page)
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog.document-view", state="detached")
    assert page.url == before
    assert focused(page) == "휴가 규정"
    # Filters, and pages of what is left.
    page.click("#options summary")
    with page.expect_response("**/v1/search"):
        page.select_option("#folder", "rooms")
    page.wait_for_selector(".pager")
    assert all(one.startswith("rooms/") for one in page.locator(".document").all_inner_texts())
    seen = page.locator(".document").all_inner_texts()
    page.click(".pager button:last-child")
    page.wait_for_function("location.hash.includes('from=10')")
    page.wait_for_selector("ol.results[start='11']")
    seen += page.locator(".document").all_inner_texts()
    assert len(seen) == len(set(seen)) == 12
    unlabelled = """() => [...document.querySelectorAll("main input, main select, main button")]
      .filter((one) => !one.labels?.length && !one.ariaLabel && !one.textContent.trim()).length"""
    assert page.evaluate(unlabelled) == 0
    assert page.complaints == []


def test_a_long_document_is_read_to_both_ends(page: Any, company: Served) -> None:
    page.goto(f"{company.url}/#/search?lang=en&mode=keyword")
    ask(page, "Part 34")
    page.locator(".hit", has_text="long.md").locator(".open").click()
    page.wait_for_selector("dialog .here:has-text('Text 34')")
    assert page.locator(".neighbour").count() == 41
    for end in ("first", "last"):
        getattr(page.get_by_role("button", name="Show more around it"), end).click()
        page.wait_for_selector(f".neighbour:has-text('Text {0 if end == 'first' else 69}.')")
    texts = page.locator(".neighbour").all_inner_texts()
    assert [one.split(".")[0] for one in texts] == [f"Text {i}" for i in range(70)]
    assert page.get_by_role("button", name="Show more around it").count() == 0
    assert page.complaints == []


@pytest.mark.parametrize("lang", ["ko", "en"])
def test_a_phone_shows_three_hits_without_scrolling(
    page: Any, site: Served, company: Served, lang: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for served, query in ((site, "how do I get a refund"), (company, "연차는 며칠인가요")):
        page.goto(f"{served.url}/#/search?lang={lang}")
        page.wait_for_selector(".chip")
        ask(page, query)
        bottoms = page.locator(".hit").evaluate_all(
            "(all) => all.map((one) => one.getBoundingClientRect().bottom)"
        )
        assert bottoms[2] <= 800 and page.evaluate("scrollY") == 0
        assert page.evaluate(WIDE) <= 0


def test_relevance_is_shown_where_it_is_known(page: Any, company: Served) -> None:
    """Bars and words to mark are the server's; nothing of the raw score is drawn."""
    page.goto(f"{company.url}/#/search?lang=en")
    found: dict[str, Any] = {"relevance": None}

    def answer(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        for group in body["groups"]:
            for hit in group["hits"]:
                hit.pop("relevance", None)
                if found["relevance"] is not None:
                    at = hit["text"].find("15일")
                    hit["relevance"], hit["page"] = found["relevance"], 3
                    hit["met"] = [{"passage": [at, at + 3]}] if at >= 0 else []
        route.fulfill(response=response, json=body)

    page.route("**/v1/search", answer)
    for relevance, poor in ((None, 0), (0.91, 0), (0.07, 1)):
        found["relevance"] = relevance
        ask(page, "연차는 며칠")
        page.wait_for_function("n => document.querySelectorAll('.poor').length === n", arg=poor)
        bars = page.locator(".hit .relevance")
        assert bars.count() == (0 if relevance is None else page.locator(".hit").count())
    assert page.inner_text(".poor") == "Nothing relevant found; the nearest are:"
    assert bars.first.inner_text().strip() == "0.07"
    assert page.locator(".hit").first.locator("mark").all_inner_texts() == ["15일"]
    assert page.inner_text(".document >> nth=0") == "rules/휴가.md#page=3"
    page.click(".open >> nth=0")
    page.wait_for_selector("dialog .here")
    assert page.locator(".here mark").all_inner_texts() == ["15일"]
    assert page.inner_text("dialog .path") == "rules/휴가.md#page=3"
    assert page.complaints == []


def test_hits_are_text_and_their_table_runs_nothing(page: Any, company: Served) -> None:
    page.goto(f"{company.url}/#/search?lang=en&mode=keyword")
    ask(page, "연차표")
    assert "<img src=x onerror=alert(1)>" in page.inner_text(".hit")
    assert page.query_selector(".hit img") is None
    with page.expect_download() as saved:
        page.click("#export")
    table = saved.value.path().read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(table, newline="")))
    [row] = [row for row in rows if row["document"] == "rules/unsafe.txt"]
    assert row["text"].startswith(f"'{FORMULA}") and row["rank"] == "1"
    assert page.complaints == []


def test_files_are_dropped_onto_the_page(page: Any, company: Served) -> None:
    page.goto(f"{company.url}/#/search?lang=ko")
    page.wait_for_selector("#upload")
    drop = """(text) => {
      const data = new DataTransfer();
      data.items.add(new File([text], "주차 안내.md"));
      data.items.add(new File(["%PDF-1.4 nothing"], "bad.pdf"));
      const event = new DragEvent("drop", { dataTransfer: data, bubbles: true });
      document.querySelector("h1").dispatchEvent(event);  // anywhere on the page
    }"""
    page.evaluate(drop, "# 주차 안내\n\n방문객 주차는 지하 3층이다.\n")
    page.wait_for_selector(".uploads .bad")
    good, bad = page.locator(".uploads li").all_inner_texts()
    assert good.startswith("주차 안내.md: 문서 1건") and bad.startswith("bad.pdf")
    ask(page, "방문객 주차")
    assert page.locator(".document").first.inner_text() == "uploads/주차 안내.md"
    page.set_input_files(
        "#files", [{"name": f"{i}.txt", "mimeType": "", "buffer": b"a"} for i in range(3)]
    )
    page.wait_for_selector(".drop .notice")
    assert page.complaints == []
