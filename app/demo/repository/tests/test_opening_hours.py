from opening_hours import Span, hours_per_day, is_open, parse


def test_spans_are_parsed():
    assert parse("9-17, 18-20") == [Span(9, 17), Span(18, 20)]


def test_a_shop_is_open_at_its_first_hour():
    assert is_open(parse("9-17"), 9)


def test_a_shop_is_closed_from_its_closing_hour_on():
    assert not is_open(parse("9-17"), 17)


def test_hours_are_added_up():
    assert hours_per_day(parse("9-17, 18-20")) == 10
