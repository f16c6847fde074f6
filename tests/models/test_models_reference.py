"""The reference of models says all there is, and its code runs as it stands there."""

import inspect
import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from reconcile import Object, field, kinds, resource
from reconcile.models import Scale, Schema
from reconcile.models.fields import FieldKeywords

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "models.md").read_text()


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}")[2].partition("\n## ")[0]


def first_column(title: str) -> set[str]:
    rows = re.findall(r"^\| (`.*?) \|", section(title), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_the_code_on_the_page_runs() -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    exec(compile(code, "models.md", "exec"), {"__name__": "models_reference"})


def test_the_page_has_every_option_of_a_kind_and_no_other() -> None:
    assert first_column("`@resource(") == set(inspect.signature(resource).parameters) - {"api_version"}


def test_the_page_has_every_keyword_of_a_field_and_no_other() -> None:
    assert first_column("`field(") == {*FieldKeywords.__annotations__, "default", "factory"}


def test_the_page_has_every_keyword_of_a_schema_and_no_other() -> None:
    assert first_column("`Schema(") == {attribute.name for attribute in attrs.fields(Schema)}


def test_constraints_of_a_field_have_only_one_place() -> None:
    names = {attribute.name for attribute in attrs.fields(Schema)}
    assert not names & set(FieldKeywords.__annotations__)
    for word in (*names, "rule"):
        with pytest.raises(TypeError, match=r"belongs to the type, as in Annotated\[\.\.\., Schema\("):
            field(default=None, **{word: None})


def test_the_page_has_every_path_of_a_scale_with_its_default() -> None:
    for attribute in attrs.fields(Scale):
        assert f"| `{attribute.name}` | `{attribute.default}` |" in section("Scale")


def test_the_page_names_every_built_in_kind_that_has_a_model() -> None:
    sentence = section("Fields that").partition("The kinds of `reconcile.kinds` are ")[2].partition(".")[0]
    having = {name for name in kinds.__all__ if hasattr(getattr(kinds, name), "__kind__")}
    assert set(re.findall(r"`(\w+)`", sentence)) == having


@pytest.mark.parametrize("text", ["list[int]", "dict[str, str]"])
def test_types_that_the_page_lists_as_refused_are_refused(text: str) -> None:
    spec: Any = attrs.frozen(type("Spec", (), {"__annotations__": {"x": text}}))
    with pytest.raises(TypeError, match="objects are immutable"):
        resource("example.com/v1")(type("Made", (Object,), {"__annotations__": {"spec": spec}}))
