"""Objects as the text of files."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from informers.apimachinery.yaml_scalars import loader_on
from reconcile.shipping.documents import as_yaml

TEXTS = (
    st.text("0123456789eExob+-._:yn~", max_size=8)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.text("ab\x85\u2028\u2029\n\t\r #:'\"")
)


@given(TEXTS, TEXTS)
def test_every_text_is_read_back_as_it_was(key: str, text: str) -> None:
    assert yaml.safe_load(as_yaml({key: [text]})) == {key: [text]}


@given(TEXTS, TEXTS)
def test_kubectl_and_helm_read_every_text_back_as_it_was(key: str, text: str) -> None:
    assert yaml.load(as_yaml({key: [text]}), Loader=loader_on(yaml.SafeLoader)) == {key: [text]}


@pytest.mark.parametrize("text", ["y", "N", "08", "0o17", "1e3", "1234e56", "1_0e3", "0X1F", ".5e1", "12:30"])
def test_text_that_some_reader_takes_for_another_value_is_quoted(text: str) -> None:
    assert as_yaml({text: text}) == f"'{text}': '{text}'\n"
