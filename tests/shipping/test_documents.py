"""Objects as the text of files."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconcile.shipping.documents import as_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x85\u2028\u2029\n\t\r #:'\""))


@given(TEXTS, TEXTS)
def test_every_text_is_read_back_as_it_was(key: str, text: str) -> None:
    assert yaml.safe_load(as_yaml({key: [text]})) == {key: [text]}
