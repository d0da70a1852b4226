"""Filters: read, compared, refused."""

import contextlib
import time

import pytest

from malmoi.corpus.filters import Filter, as_filters, atom, atoms, check_dates
from malmoi.errors import DataError, OptionError


def test_conditions() -> None:
    assert Filter.parse(" city = 서울 ") == Filter("city", "=", "서울")
    assert Filter.parse("x!=") == Filter("x", "!=", "")
    assert as_filters({"a": True}) == [Filter("a", "=", "true")]
    assert as_filters(None) == []
    assert atom(10**30) == 1e30
    assert atom("007") == "007"
    assert Filter("y", ">", 3).fits({"y": ["1", "4"]})
    assert not Filter("y", ">", 3).fits({})
    assert Filter("y", ">", 3).fits({"y": "text"})  # every number comes before every text


def test_conditions_are_read_in_no_time_and_never_misread() -> None:
    assert Filter.parse("year==2024") == Filter("year", "=", 2024)
    assert Filter.parse("a!b=c") == Filter("a!b", "=", "c")
    assert Filter.parse("tag= <b>") == Filter("tag", "=", "<b>")
    for text, message in (
        ("a=>3", "compares by =>"),
        ("a<>b", "compares by <>"),
        ("a===b", "compares by ==="),
        ("a" + "=" * 5000, "compares by =========;"),
        ("=3", "no comparison"),
        ("a" * 20_000 + "=1", "20,002 characters"),
    ):
        with pytest.raises(OptionError, match=message):
            Filter.parse(text)
    began = time.perf_counter()
    for text in (" " * 10_000, " " * 9_000 + "x", "x" + " " * 9_000, "x=" + " " * 9_000 + "y"):
        with contextlib.suppress(OptionError):
            Filter.parse(text)
    assert time.perf_counter() - began < 0.1


def test_fields_that_cannot_be_compared_are_refused() -> None:
    deep: list[object] = [1]
    for _ in range(900):
        deep = [deep]
    for value, message in (
        (deep, "more than 32 deep"),
        ({"a": deep}, "more than 32 deep"),
        (10**400, "more than 308 digits"),
    ):
        with pytest.raises(DataError, match=message):
            atoms(value)
    assert atoms([1, ["b", {"c": ["d"]}, None]]) == [1, "b"] and atoms({"a": [1]}) == []
    assert atom("\ud800") == "\ufffd"


def test_a_date_is_compared_with_dates_only() -> None:
    dates = [{"date": "2030-01-02"}, {"date": ["2031-01-02"], "year": 2030}]
    check_dates(as_filters("date>=2030-01-01"), dates)
    check_dates(as_filters("date=soon"), dates)
    check_dates(as_filters("gone>=2030-01-01"), dates)
    with pytest.raises(OptionError, match="'year' with a date, and its values are no dates"):
        check_dates(as_filters("year>=2030-01-01"), dates)
    with pytest.raises(OptionError, match="Write it as date>=2030-01-31"):
        check_dates(as_filters("date>=2030"), dates)
