"""The server that a TLS client asks for: read from any hello, refused when hidden or told twice."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.proxy_request import InvalidClientHello, server_name
from tests.support.client_hello import hello_for, with_extension


@pytest.mark.parametrize("cut", [1, 5, 100])
def test_a_name_is_read_however_the_hello_is_cut(cut: int) -> None:
    hello = hello_for("Files.Example.org")
    body = hello[5:]
    pieces = [body[start : start + cut] for start in range(0, len(body), cut)]
    records = [b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece for piece in pieces]
    assert server_name(b"".join(records)) == "files.example.org"
    assert server_name(b"".join(records[:-1])) is None
    assert server_name(b"".join(records)[:-1]) is None


def test_a_hidden_name_is_refused() -> None:
    with pytest.raises(InvalidClientHello, match="ECH"):
        server_name(with_extension(hello_for("example.org"), 0xFE0D, b"hidden"))


def test_two_names_are_refused() -> None:
    one = hello_for("example.org")
    other = b"\0\0\x09evil.test"
    with pytest.raises(InvalidClientHello, match="repeats"):
        server_name(with_extension(one, 0, len(other).to_bytes(2, "big") + other))
    pair = b"\0\0\x04a.it" + other
    with pytest.raises(InvalidClientHello, match="more than one"):
        server_name(with_extension(hello_for(None), 0, len(pair).to_bytes(2, "big") + pair))


@given(st.binary(max_size=400))
def test_any_bytes_are_a_hello_or_refused(tail: bytes) -> None:
    for head in (b"", hello_for("example.org")[:60]):
        with suppress(InvalidClientHello):
            name = server_name(head + tail)
            assert name is None or name
