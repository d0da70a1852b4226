"""Text that was decoded wrongly once: what is repaired, what is lost, and what is left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from malmoi.text.mojibake import repair

TEXT = '이 글은 잘못 저장된 글이다. "따옴표" — café, 끝.'


@pytest.mark.parametrize("encoding", ["latin-1", "mac_roman", "cp437", "cp850"])
def test_utf8_read_as_another_encoding(encoding: str) -> None:
    found = repair(TEXT.encode().decode(encoding))
    assert (found.text, found.lost) == (TEXT, 0)
    assert found.repaired > 15


def test_utf8_read_as_cp1252_with_and_without_the_bytes_it_lacks() -> None:
    raw = TEXT.encode()
    lenient = "".join(bytes([b]).decode("cp1252", "ignore") or chr(b) for b in raw)
    assert repair(lenient).text == TEXT
    lossy = repair(raw.decode("cp1252", "ignore"))
    assert lossy.repaired > 5
    assert lossy.lost >= 3
    assert "잘못" in lossy.text


def test_utf8_read_wrongly_twice() -> None:
    assert repair(TEXT.encode().decode("latin-1").encode().decode("latin-1")).text == TEXT


def test_cp949_read_as_latin1() -> None:
    text = "안녕하세요. 이 글은 잘못 저장된 글이다."
    assert repair(text.encode("cp949").decode("latin-1")).text == text


def test_spaces_that_were_made_one_kind_are_understood() -> None:
    text = "저장된 전화".encode().decode("latin-1").replace("\xa0", " ")
    assert repair(text).text == "저장된 전화"


def test_a_wrong_piece_in_a_right_text_is_repaired() -> None:
    text = f"앞은 멀쩡하고 {'가운데는'.encode().decode('latin-1')} 깨졌고 뒤도 멀쩡하다."
    assert repair(text).text == "앞은 멀쩡하고 가운데는 깨졌고 뒤도 멀쩡하다."


@pytest.mark.parametrize(
    "text",
    [
        "멀쩡한 글이다. Plain text.",
        "Être ou ne pas être — c'est là… «garçon» 5 € à l'été",
        "Größe, Straße, ÄÖÜ; São Paulo; Æther Þór",
        "café « oui », così “ciao”, aquí «sí», lì ±1",
        "Привет, мир. ёлка «кавычки»",
        "룬 문자에서 따온 Þ·ƿ 등이 있다.",
        "３０％ ①② ㎎ ℃ 漢字 かな 😀",
    ],
)
def test_right_text_is_left_alone(text: str) -> None:
    found = repair(text)
    assert (found.text, found.repaired, found.lost) == (text, 0, 0)


@given(st.text(alphabet=st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3), min_size=3))
def test_every_korean_text_comes_back(text: str) -> None:
    assert repair(text.encode().decode("latin-1")).text == text


@given(st.text(max_size=60))
def test_any_text_is_taken(text: str) -> None:
    assert isinstance(repair(text).text, str)
