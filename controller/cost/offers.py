"""Which offer of the catalog a BrevInstance gets, and why the others were passed over."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controller.api.brevinstance import Candidate
from controller.api.money import format_usd
from controller.api.reasons import Reason


@dataclass(frozen=True, slots=True)
class Offer:
    """One machine type as the catalog sells it (`brev search --json`, brev-cli v0.6.327).

    `price_micros` is micro-USD an hour; None means that the catalog shows no usable price.
    `boot_time_seconds` is the provider's own estimate; 0 means unknown.
    """

    type: str
    provider: str
    gpu: str
    gpu_count: int
    price_micros: int | None
    stoppable: bool
    boot_time_seconds: int


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one candidate cannot be bought now. `message` is a full sentence for the status."""

    type: str
    reason: Reason
    message: str


def choose_offer(
    candidates: Sequence[Candidate], catalog: Iterable[Offer], excluded: frozenset[str] = frozenset()
) -> tuple[Offer | None, tuple[Rejection, ...]]:
    """The first candidate that the catalog sells within its maximum price, and the rejections before it.

    `excluded` holds types that were tried and refused already (no capacity, failed machines); they are skipped
    without a rejection of their own, because the caller has recorded one. Where the catalog lists a type more than
    once (one row per location), the dearest row counts, so that a maximum price holds wherever the machine lands.
    """
    by_type: dict[str, Offer] = {}
    for offer in catalog:
        known = by_type.get(offer.type)
        if known is None or _dearer(offer, known):
            by_type[offer.type] = offer
    rejections: list[Rejection] = []
    for candidate in candidates:
        if candidate.type in excluded:
            continue
        verdict = _judge(candidate, by_type.get(candidate.type))
        if isinstance(verdict, Offer):
            return verdict, tuple(rejections)
        rejections.append(verdict)
    return None, tuple(rejections)


def _dearer(offer: Offer, known: Offer) -> bool:
    if known.price_micros is None:
        return False
    return offer.price_micros is None or offer.price_micros > known.price_micros


def _judge(candidate: Candidate, offer: Offer | None) -> Offer | Rejection:
    if offer is None:
        return Rejection(
            candidate.type,
            Reason.UNKNOWN_MACHINE_TYPE,
            f'The catalog has no machine type "{candidate.type}"; "brev search --json" lists the types on offer.',
        )
    if offer.price_micros is None:
        return Rejection(
            candidate.type,
            Reason.PRICE_UNKNOWN,
            f'The catalog shows no price for "{candidate.type}", and a machine of unknown price is never created; '
            "choose another type.",
        )
    maximum = candidate.max_price_micros
    if maximum is not None and offer.price_micros > maximum:
        return Rejection(
            candidate.type,
            Reason.PRICE_ABOVE_MAXIMUM,
            f'"{candidate.type}" costs {format_usd(offer.price_micros)} USD an hour, more than the '
            f"maxPricePerHourUSD of {format_usd(maximum)}; raise the maximum or choose another type.",
        )
    return offer
