"""Decode bytes as UTF-8, unify line ends, and handle invalid bytes."""

import codecs
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from electra.data.settings import Invalid
from electra.errors import DataError

REPLACEMENT = "\ufffd"
BYTE_ORDER_MARKS = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),  # before UTF-16, whose mark is a prefix of the first
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
HINT = "electra train, vocab and corpus accept --invalid replace or --invalid skip"
MOST_INVALID = 0.1  # of the characters beyond ASCII in damaged text; in other encodings, most are invalid
CONVERT = "convert the text if it has another encoding: iconv -f ENCODING -t UTF-8, such as CP1252, EUC-KR or SHIFT_JIS"


class Decoder:
    """Decodes the bytes of one source and counts the places with invalid UTF-8."""

    def __init__(self, name: str, invalid: Invalid = "error") -> None:
        self.name = name
        self.invalid = invalid
        self.invalid_places = 0

    def decode(self, chunks: Iterable[bytes]) -> Iterator[str]:
        """Decode a stream and convert line ends to `\\n`."""
        line_ends = io.IncrementalNewlineDecoder(None, translate=True)
        chunks = iter(chunks)
        data = next(chunks, b"")
        refuse_binary(data, self.name)
        place = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0  # of data[0] in the source
        data = data[place:]
        for chunk in chain(chunks, [b""]):
            text, used = self._decode(data, place, final=False)
            yield line_ends.decode(text)
            place += used
            data = data[used:] + chunk
        yield line_ends.decode(self._decode(data, place, final=True)[0], final=True)

    def _decode(self, data: bytes, place: int, final: bool) -> tuple[str, int]:
        try:
            return codecs.utf_8_decode(data, "strict", final)
        except UnicodeDecodeError as problem:
            if self.invalid == "error":
                where = f"byte {place + problem.start} (0x{data[problem.start]:02x})"
                cut = final and problem.reason == "unexpected end of data"  # inside its last character
                advice = HINT if cut or _is_mostly_utf8(data) else f"{CONVERT}; {HINT}"
                raise DataError(f"{self.name}: invalid UTF-8 at {where}; {advice}") from None
        text, used = codecs.utf_8_decode(data, "replace", final)
        self.invalid_places += text.count(REPLACEMENT) - data[:used].count(REPLACEMENT.encode())
        return (text, used) if self.invalid == "replace" else codecs.utf_8_decode(data, "ignore", final)

    def mend(self, text: str) -> str:
        """Treat lone surrogates, which JSON can express but UTF-8 cannot, as invalid bytes."""
        surrogates = re.findall("[\ud800-\udfff]", text)
        if not surrogates:
            return text
        if self.invalid == "error":
            found = f"a lone surrogate or invalid UTF-8 (U+{ord(surrogates[0]):04X})"
            raise DataError(f"{self.name}: {found} in a record; {HINT}")
        self.invalid_places += len(surrogates)
        return re.sub("[\ud800-\udfff]", REPLACEMENT if self.invalid == "replace" else "", text)


def refuse_binary(start: bytes, name: str) -> None:
    """Raise an error if a source starts with bytes that are not UTF-8 text."""
    start = start[:8192]
    for encoding, marks in BYTE_ORDER_MARKS.items():
        if start.startswith(marks):
            raise DataError(f"{name}: the text is {encoding}; convert it with: iconv -f {encoding} -t UTF-8")
    controls = len(re.findall(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", start))
    if controls > max(8, len(start) // 10) or (b"\0" in start and not _is_utf8(start)):
        raise DataError(f"{name}: a binary file, not text")


def _is_mostly_utf8(data: bytes) -> bool:
    """Return whether few of the characters beyond ASCII are invalid: the text is damaged, not in another encoding."""
    letters = [letter for letter in data.decode("utf-8", "replace") if not letter.isascii()]
    return letters.count(REPLACEMENT) < MOST_INVALID * len(letters)


def _is_utf8(start: bytes) -> bool:
    try:
        codecs.utf_8_decode(start, "strict", False)
    except UnicodeDecodeError:
        return False
    return True
