"""Prices of GPUs and what tokens cost at them."""

import pytest

from simulator.documents import DocumentError
from simulator.price import GpuPrices, cost_per_million_output_tokens, prices_of


def test_a_price_for_all_and_prices_by_name() -> None:
    """A name of its own comes before the price for all; without either there is none."""
    prices = prices_of(("2.5", "h200-sxm=4"))

    assert prices == GpuPrices(2.5, {"h200-sxm": 4.0})
    assert (prices.of("h100-sxm"), prices.of("h200-sxm")) == (2.5, 4.0)
    assert prices_of(("h200-sxm=4",)).of("h100-sxm") is None
    assert prices_of(()).of("h100-sxm") is None


def test_hardware_of_a_file_has_a_price_by_its_path() -> None:
    """A path is a name as the scenario has it, an equals sign in it included."""
    assert prices_of(("./a=b/own.yaml=3",)).of("./a=b/own.yaml") == 3.0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("h300-sxm=2",), ["no hardware profile 'h300-sxm'", "h200-sxm"]),
        (("dear",), ["'dear': a price is a number above zero"]),
        (("0",), ["above zero"]),
        (("-2",), ["above zero"]),
        (("nan",), ["above zero"]),
        (("inf",), ["above zero"]),
        (("1e99",), ["above zero"]),
        (("h100-sxm=",), ["above zero"]),
        (("",), ["above zero"]),
        (("2", "3"), ["'3': a price is given once"]),
        (("h100-sxm=2", "h100-sxm=2"), ["given once"]),
        (("h300-sxm=x", "y"), ["no hardware profile", "'h300-sxm=x': a price", "'y': a price"]),
    ],
)
def test_what_is_no_price_is_told(options: tuple[str, ...], told: list[str]) -> None:
    """Each mistake with what was written, all of them at once."""
    with pytest.raises(DocumentError) as caught:
        prices_of(options)

    assert str(caught.value).startswith("--gpu-hour-cost:")
    for words in told:
        assert words in str(caught.value)


def test_the_cost_of_a_million_tokens_by_hand() -> None:
    """Four GPUs at 3.60 an hour cost 0.004 a second; at 2,000 tokens a second, 2 a million."""
    assert cost_per_million_output_tokens(4, 2000.0, 3.6) == pytest.approx(2.0)
    assert cost_per_million_output_tokens(4, 0.0, 3.6) is None
