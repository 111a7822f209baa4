"""Which offer a list of candidates gets."""

from collections.abc import Sequence

import pytest

from controller.api.brevinstance import Candidate
from controller.api.reasons import Reason
from controller.cost.offers import Offer, choose_offer
from tests.builders import offer


def wanted(*types: str, maximum: int | None = None) -> list[Candidate]:
    return [Candidate(type=type_, max_price_micros=maximum) for type_ in types]


def test_the_first_candidate_on_offer_is_taken_whatever_the_others_cost() -> None:
    chosen, rejections = choose_offer(wanted("dear", "cheap"), [offer("cheap", 1), offer("dear", 9)])
    assert chosen is not None
    assert (chosen.type, rejections) == ("dear", ())


def test_candidates_before_the_chosen_one_are_rejected_with_their_reasons_in_order() -> None:
    chosen, rejections = choose_offer(
        [*wanted("gone"), *wanted("dear", maximum=5), *wanted("secret"), *wanted("good")],
        [offer("dear", 6), offer("secret", None), offer("good", 6)],
    )
    assert chosen is not None
    assert chosen.type == "good"
    assert [(one.type, one.reason) for one in rejections] == [
        ("gone", Reason.UNKNOWN_MACHINE_TYPE),
        ("dear", Reason.PRICE_ABOVE_MAXIMUM),
        ("secret", Reason.PRICE_UNKNOWN),
    ]
    assert all(one.message.endswith(".") for one in rejections)


@pytest.mark.parametrize(("price", "taken"), [(5, True), (6, False)])
def test_the_maximum_itself_is_accepted(price: int, taken: bool) -> None:
    chosen, _ = choose_offer(wanted("a", maximum=5), [offer("a", price)])
    assert (chosen is not None) == taken


def test_a_price_of_zero_is_a_price() -> None:
    chosen, _ = choose_offer(wanted("a"), [offer("a", 0)])
    assert chosen is not None


@pytest.mark.parametrize(
    "rows",
    [
        [offer("a", 3), offer("a", 9), offer("a", 5)],
        [offer("a", 9), offer("a", 3)],
    ],
)
def test_of_a_type_that_is_listed_more_than_once_the_dearest_row_counts(rows: Sequence[Offer]) -> None:
    chosen, _ = choose_offer(wanted("a"), rows)
    assert chosen is not None
    assert chosen.price_micros == 9
    assert choose_offer(wanted("a", maximum=8), rows)[0] is None


@pytest.mark.parametrize("rows", [[offer("a", None), offer("a", 1)], [offer("a", 1), offer("a", None)]])
def test_one_row_without_a_price_makes_the_type_one_of_unknown_price(rows: Sequence[Offer]) -> None:
    chosen, rejections = choose_offer(wanted("a"), rows)
    assert chosen is None
    assert [one.reason for one in rejections] == [Reason.PRICE_UNKNOWN]


def test_excluded_types_are_skipped_without_a_rejection_of_their_own() -> None:
    chosen, rejections = choose_offer(wanted("a", "b"), [offer("a"), offer("b")], frozenset({"a"}))
    assert chosen is not None
    assert (chosen.type, rejections) == ("b", ())


def test_an_empty_catalog_rejects_every_candidate() -> None:
    chosen, rejections = choose_offer(wanted("a", "b"), [])
    assert chosen is None
    assert len(rejections) == 2
