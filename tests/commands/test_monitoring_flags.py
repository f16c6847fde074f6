"""The flags of `reconcile manifests --monitoring`: what could not work is refused, and nothing is written."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from reconcile.commands.main import reconcile
from tests.shipping.charts import DOORS

TLS = "tests.shipping.doors:served_over_tls"
READER = ("--metrics-reader", "watch/prometheus")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("sites", "--pod-monitor"), "--pod-monitor is about --monitoring"),
        (("sites", "--metrics-ca", "ca"), "--metrics-ca is about --monitoring"),
        (("sites", "--monitoring", "--monitoring-label", "x"), "'x' is not a label"),
        (("sites", "--monitoring", "--monitoring-label", "a=b c"), "'a=b c' is not a label"),
        (("sites", "--monitoring", "--metrics-ca", "ca"), "the pods serve without TLS"),
        (("sites", "--monitoring", *READER), "/metrics of this operator asks for none"),
        ((TLS, "--monitoring", "--metrics-reader", "prometheus"), "'prometheus' is not a ServiceAccount"),
        ((TLS, "--monitoring", "--metrics-ca", "Pages"), "'Pages' is not the name of a Secret"),
        (("sites", "--monitoring", "--runbooks", "books"), "'books' is not an address"),
        (("sites", "--monitoring", "--runbooks", "javascript:x"), "'javascript:x' is not an address"),
        ((DOORS, "--monitoring", "--olm", "bundle"), "--olm and --monitoring were both given"),
    ],
)
def test_flags_that_could_not_work_are_refused_in_one_line(
    options: Sequence[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(reconcile, ["manifests", *options])
    assert result.exit_code == 2
    assert message in result.output
    assert list(tmp_path.iterdir()) == []
