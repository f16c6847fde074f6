"""Laws of rights: a right covers itself and every narrower one, and nothing else."""

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reconcile.doctor.rights import Grant

GRANTS = st.builds(
    Grant,
    namespace=st.sampled_from(["", "shop", "home"]),
    group=st.sampled_from(["*", "", "apps"]),
    resource=st.sampled_from(["*", "pods", "pods/status", "*/status"]),
    name=st.sampled_from(["", "web"]),
    verb=st.sampled_from(["*", "get", "list"]),
)
WIDEST = Grant("", "*", "*", "", "*")


@given(GRANTS)
def test_a_right_covers_itself_and_the_widest_covers_it(grant: Grant) -> None:
    assert grant.covers(grant)
    assert WIDEST.covers(grant)
    assert grant.covers(WIDEST) == (grant == WIDEST)


@given(GRANTS, GRANTS, GRANTS)
def test_what_covers_what_covers_a_third_covers_the_third(first: Grant, second: Grant, third: Grant) -> None:
    if first.covers(second) and second.covers(third):
        assert first.covers(third)


@given(GRANTS)
def test_a_right_in_one_namespace_or_for_one_name_covers_no_wider_one(grant: Grant) -> None:
    assert not evolve(grant, namespace="shop").covers(evolve(grant, namespace=""))
    assert not evolve(grant, name="web").covers(evolve(grant, name=""))
    assert not evolve(grant, resource="pods").covers(evolve(grant, resource="pods/status"))
