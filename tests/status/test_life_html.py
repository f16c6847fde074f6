"""An object's life as a file to be shared: what is in it, and what cannot get into it."""

import base64
import hashlib
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from reconcile.status.life_form import read_life
from reconcile.status.life_html import html_of
from reconcile.status.markup import LONGEST_TEXT, element, plain, verbatim
from tests.helpers.lives import a_life

EMPTY = {"meta"}


@define
class Page(HTMLParser):
    """A file as a browser takes it: each element has to be closed in its turn."""

    elements: list[tuple[str, dict[str, str | None]]] = field(factory=list)
    text: str = ""
    sources: dict[str, str] = field(factory=dict)
    _open: list[str] = field(factory=list)

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        within = self._open[-1] if self._open else ""
        if within in ("style", "script"):
            self.sources[within] = self.sources.get(within, "") + data
        else:
            self.text += data

    def names(self) -> set[str]:
        return {name for name, _ in self.elements}


def page_of(life: dict[str, Any]) -> Page:
    page = Page()
    page.feed(html_of(read_life(life)))
    page.close()
    assert page._open == []
    return page


def replaced(value: Any, text: str) -> Any:
    """A life whose texts all are `text`, but those that choose among words."""
    if isinstance(value, dict):
        return {name: replaced(inner, text) for name, inner in value.items()}
    if isinstance(value, list):
        return [replaced(inner, text) for inner in value]
    return text if isinstance(value, str) else value


def test_the_file_says_what_woke_each_run_what_it_wrote_and_what_followed() -> None:
    text = " ".join(page_of(a_life()).text.split())
    for words in (
        "Site default/shop",
        "failed 2 times in a row, last with ValueError: no bulb; tries again in 8.0 s",
        "Ready=False NoImage",
        "deployments.apps default/shop updated at version 12 by this key: .spec.replicas",
        "2025-11-24 16:02:00.000 UTC",
        "at 2025-11-24 16:00:00.020 UTC, from run 0000000a",
        "from run 000000ff of palette for default/blue",
        "Pod (list)",
        ".spec.replicas34",
        ".spec.pausedtrueabsent",
        "values of Secrets are not kept",
        "error, after 1 try",
        "next try2025-11-24 16:02:08 UTC",
        "differs from what was applied",
        "was applied, and is not there",
        "and 3 more",
    ):
        assert words in text, words


@pytest.mark.parametrize(("left_out", "words"), [(1, "1 run is not kept"), (6, "6 runs are not kept")])
def test_the_file_says_where_runs_are_missing_between_others(left_out: int, words: str) -> None:
    life = a_life()
    life["runs"][0]["left_out"] = left_out
    assert words in page_of(life).text
    assert "not kept" not in page_of(a_life()).text.replace("values of Secrets are not kept", "").replace(
        "its fields are not kept", ""
    )


def test_a_run_leads_to_the_run_that_woke_it() -> None:
    page = page_of(a_life())
    targets = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    links = [attributes["href"] for name, attributes in page.elements if name == "a"]
    assert links == ["#run-0000000a"]
    assert "run-0000000a" in targets


@pytest.mark.rule("life-export")
def test_the_policy_allows_the_style_and_the_script_of_the_file_and_nothing_else() -> None:
    page = page_of(a_life())
    (policy,) = (
        attributes["content"]
        for name, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    allowed = dict(part.strip().split(" ", 1) for part in (policy or "").split(";"))
    for name in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.sources[name].encode()).digest()).decode()
        assert allowed.pop(f"{name}-src") == f"'sha256-{digest}'"
    assert allowed == {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'"}
    assert "unsafe" not in (policy or "")
    # The policy has to come before what it is about.
    assert [name for name, _ in page.elements].index("style") > 2


@pytest.mark.rule("life-export")
def test_nothing_is_loaded_and_no_style_or_script_stands_in_an_attribute() -> None:
    page = page_of(a_life())
    assert page.names() & {"img", "link", "iframe", "object", "embed", "base", "form", "svg"} == set()
    attributes = {name for _, values in page.elements for name in values}
    assert attributes & {"src", "style", "srcset", "action"} == set()
    assert [name for name in attributes if name.startswith("on")] == []
    assert re.findall(r"url\(|@import|https?:", page.sources["style"]) == []


HOSTILE = [
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</main></body><!--",
    "]]>&lt;&#0;\x00",
    "' onmouseover='alert(1)",
]


@pytest.mark.rule("life-export")
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_and_messages_are_shown_and_nothing_else(text: str) -> None:
    page, calm = page_of(replaced(a_life(), text)), page_of(replaced(a_life(), "x"))
    assert [name for name, _ in page.elements] == [name for name, _ in calm.elements]
    assert [set(values) for _, values in page.elements] == [set(values) for _, values in calm.elements]
    assert page.sources == calm.sources
    assert plain(text) in page.text


@given(st.text(max_size=60))
def test_no_text_changes_the_structure_of_the_file(text: str) -> None:
    page, calm = page_of(replaced(a_life(), f"x{text}")), page_of(replaced(a_life(), "x"))
    assert [name for name, _ in page.elements] == [name for name, _ in calm.elements]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("safe\u202egpj.exe", "safe⟨U+202E⟩gpj.exe"),
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
        ("zero\u200bwidth", "zero⟨U+200B⟩width"),
        ("bell\x07", "bell⟨U+0007⟩"),
        ("half\ud800", "half⟨U+D800⟩"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("שלום, 世界 🙂", "שלום, 世界 🙂"),
    ],
)
def test_characters_that_mislead_are_shown_by_their_numbers(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert element("p", text).text.encode()


def test_a_name_of_a_megabyte_is_cut() -> None:
    life = a_life()
    life["reason"] = life["key"] = "n" * 1_000_000
    file = html_of(read_life(life))
    assert len(file) < 60_000
    assert "n" * (LONGEST_TEXT - 1) + "…" in file


def test_a_tree_deeper_than_ours_is_cut() -> None:
    life, node = a_life(), {"kind": "Pod", "key": "d/p"}
    for _ in range(200):
        node = {"kind": "Pod", "key": "d/p", "children": [node]}
    life["tree"] = node
    page = page_of(life)
    assert page.text.count("Pod d/p") == 21
    assert "and 1 more" in page.text


def test_long_lists_are_folded() -> None:
    life = a_life()
    change = life["runs"][1]["writes"][0]["fields"][0]
    life["runs"][1]["writes"][0]["fields"] = [change] * 30
    life["runs"][0]["reads"] = [{"kind": "Pod", "key": "d/p"}] * 12
    page = page_of(life)
    assert "30 fields" in page.text
    assert "12 objects" in page.text
    assert [name for name, _ in page.elements].count("details") == 2


def test_an_object_without_runs_and_one_that_is_gone_are_said_to_be_so() -> None:
    life = {**a_life(), "runs": [], "tree": None, "exists": False}
    life["why"] = {"state": "resting", "sentence": "", "next_at": None}
    text = page_of(life).text
    assert "No run of it is remembered." in text
    assert "it is gone" in text
    assert "resting" in text


def test_an_object_held_by_a_finalizer_says_by_which() -> None:
    life = {**a_life(), "deleting_since": 1_764_000_000.0}
    assert "held by example.com/site" in page_of(life).text


@pytest.mark.parametrize("text", ["</style>", "<!-- x"])
def test_a_source_that_would_end_its_element_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot stand"):
        verbatim("style", text)
