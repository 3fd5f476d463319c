import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electra.data.reading.decode import Decoder, refuse_binary
from electra.errors import DataError


def decode(data: bytes, invalid: str = "error", chunk: int = 1 << 20) -> tuple[str, int]:
    decoder = Decoder("a.txt", invalid)
    text = "".join(decoder.decode(data[start : start + chunk] for start in range(0, len(data), chunk)))
    return text, decoder.invalid_places


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])), st.integers(1, 7))
def test_text_is_decoded_for_any_chunk_size(text, chunk):
    assert decode(text.encode(), chunk=chunk)[0] == text.removeprefix("\ufeff")


@given(st.lists(st.sampled_from(["a", "é", "\n", "\r", "\r\n"])).map("".join), st.integers(1, 3))
def test_every_line_end_becomes_one_newline(text, chunk):
    assert decode(text.encode(), chunk=chunk)[0] == text.replace("\r\n", "\n").replace("\r", "\n")


def test_an_invalid_byte_is_reported_with_its_place_in_the_file():
    with pytest.raises(DataError, match=r"a\.txt: invalid UTF-8 at byte 9 \(0xff\)"):
        decode("é".encode() * 4 + b"a\xffb", chunk=3)


def test_the_error_for_an_invalid_byte_names_the_commands_that_accept_it():
    with pytest.raises(DataError, match=r"iconv .*; electra train, vocab and corpus accept --invalid"):
        decode(b"a\xffb")


def test_another_encoding_is_only_suspected_if_most_letters_are_invalid():
    korean = "우리는 학교에서 한국어를 배운다. "
    damaged, cut, other = korean.encode() + b"\xff" + korean.encode(), korean.strip(". ").encode()[:-1], "euc-kr"
    for data, converted in ((damaged, False), (cut, False), (korean.encode(other), True)):
        with pytest.raises(DataError) as raised:
            decode(data, chunk=64)
        assert ("iconv -f ENCODING" in str(raised.value)) is converted


def test_a_byte_order_mark_counts_in_the_place():
    with pytest.raises(DataError, match="at byte 4"):
        decode(codecs.BOM_UTF8 + b"a\xff")


def test_a_text_that_ends_within_a_character_is_invalid():
    with pytest.raises(DataError, match="at byte 2"):
        decode("abé".encode()[:-1])


@pytest.mark.parametrize(("invalid", "expected"), [("replace", "a\ufffd\ufffdb\ufffdc"), ("skip", "a\ufffdbc")])
def test_invalid_bytes_are_replaced_or_skipped_and_counted(invalid, expected):
    assert decode("a\ufffd".encode() + b"\xffb\xfec", invalid) == (expected, 2)


@given(st.binary(), st.sampled_from(["replace", "skip"]), st.integers(1, 5))
def test_any_bytes_are_decoded_or_refused_as_binary(data, invalid, chunk):
    try:
        text, places = decode(data, invalid, chunk)
    except DataError:
        with pytest.raises(DataError, match=r"binary|UTF-16|UTF-32"):
            refuse_binary(data[:chunk], "a.txt")
    else:
        assert (places == 0) == (data.decode("utf-8", "ignore").encode() == data)
        assert invalid == "skip" or text.count("\ufffd") >= places


def test_a_lone_surrogate_is_treated_like_an_invalid_byte():
    assert Decoder("a", "replace").mend("x\ud800y") == "x\ufffdy"
    assert Decoder("a", "skip").mend("x\ud800y") == "xy"
    with pytest.raises(DataError, match=r"U\+D800"):
        Decoder("a").mend("x\ud800y")


@pytest.mark.parametrize("data", [bytes(100), b"PK\x03\x04\x14\x00\x08\xff\xfe", bytes(range(256))])
def test_a_binary_file_is_refused(data):
    with pytest.raises(DataError, match=r"a\.txt: a binary file"):
        decode(data, "replace")


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-32"])
@pytest.mark.parametrize("order", ["LE", "BE"])
def test_utf16_and_utf32_are_refused_with_a_command_to_convert_them(encoding, order):
    with pytest.raises(DataError, match=f"the text is {encoding}; convert it with: iconv -f {encoding} "):
        decode("\ufeffhello".encode(f"{encoding}-{order}"))


def test_a_single_null_byte_does_not_make_a_file_binary():
    assert decode(b"some text\x00 and more")[0] == "some text\x00 and more"
