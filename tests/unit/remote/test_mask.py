from __future__ import annotations

from pathlib import Path

import pytest

from controller.remote.runner import mask, view
from controller.remote.runner.logstore import LogReader, LogWriter

SECRET = b"correct-horse"


def shown(tmp_path: Path, data: bytes, values: list[bytes], limit: int = 10_000, final: bool = True) -> str:
    writer = LogWriter(str(tmp_path))
    writer.append(data)
    writer.close()
    return view.tail(LogReader(str(tmp_path)), mask.expand(values), limit, final).text


@pytest.mark.parametrize(
    ("name", "values", "data", "expected"),
    [
        ("plain", [SECRET], b"a correct-horse b", "a *** b"),
        ("at both ends", [SECRET], b"correct-horse x correct-horse", "*** x ***"),
        ("twice in a row is one", [SECRET], b"correct-horsecorrect-horse", "***"),
        ("nothing to hide", [SECRET], b"correct horse", "correct horse"),
        ("no values", [], b"correct-horse", "correct-horse"),
        ("an empty value hides nothing", [b""], b"text", "text"),
        ("five bytes stay", [b"short"], b"a short text", "a short text"),
        ("six bytes go", [b"sixsix"], b"a sixsix text", "a *** text"),
        ("six bytes of blanks stay", [b"      "], b"a       b", "a       b"),
        ("the long one wins over its part", [b"secret", b"my-secret-value"], b"(my-secret-value)", "(***)"),
        ("overlapping values leave nothing between", [b"abcdefg", b"efghijk"], b"-abcdefghijk-", "-***-"),
        ("a value that overlaps itself", [b"ababab"], b"xababababx", "x***x"),
        ("a value with newlines, whole", [b"first-line\nab\nlast-line"], b"<first-line\nab\nlast-line>", "<***>"),
        ("its lines alone", [b"first-line\nab\nlast-line"], b"> first-line\n> ab\n> last-line", "> ***\n> ab\n> ***"),
        ("lines of a file from Windows", [b"first-line\r\nlast-line"], b"last-line first-line", "*** ***"),
        ("the newline at the end of a value is no part of it", [b"secret-token\n"], b"secret-token.", "***."),
        ("indented lines", [b"key:\n  secret-token\n"], b"secret-token", "***"),
        ("unicode", ["pässwörd".encode()], "ein pässwörd!".encode(), "ein ***!"),
        ("bytes that are no text", [b"\xff\xfe\xfd\xfc\xfb\xfa"], b"a\xff\xfe\xfd\xfc\xfb\xfab", "a***b"),
        ("NUL bytes inside do not help it out", [b"secret-token"], b"s\0e\0c\0r\0e\0t\0-token", "***"),
        ("a value with NUL", [b"secret\0token"], b"secret\0token", "***"),
        ("the end is most of a value", [SECRET], b"x correct-hors", "x ***"),
        ("the end is little of a value", [SECRET], b"x corr", "x corr"),
    ],
)
def test_masking(tmp_path: Path, name: str, values: list[bytes], data: bytes, expected: str) -> None:
    assert shown(tmp_path, data, values) == expected


@pytest.mark.parametrize("final", [True, False])
def test_no_cut_at_any_place_shows_a_part_of_a_secret(tmp_path: Path, final: bool) -> None:
    data = b"0123456789" + SECRET + b"9876543210"
    for limit in range(len(data) + 5):
        text = shown(tmp_path / str(limit), data, [SECRET], limit, final)
        assert "0123456789***9876543210".endswith(text)
        assert len(text) <= limit


def test_a_window_that_begins_inside_a_secret_shows_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_SLACK", 0)
    # The later secrets shrink, so that the beginning of the window comes into view.
    data = b"0123456789" + SECRET * 2 + b"." + SECRET * 3 + b"9876543210"
    for limit in range(1, len(data)):
        text = shown(tmp_path / str(limit), data, [SECRET], limit)
        assert "0123456789***.***9876543210".endswith(text)


def test_a_secret_whose_beginning_was_rotated_away_is_not_shown_by_its_rest(tmp_path: Path) -> None:
    for lead in range(40):
        directory = tmp_path / str(lead)
        writer = LogWriter(str(directory), segment_bytes=20, keep=2)
        writer.append(b"." * lead + SECRET + b"0123456789" * 2)
        writer.close()
        reader = LogReader(str(directory))
        masks = mask.expand([SECRET])
        for text in (view.tail(reader, masks, 1000, True).text, view.piece(reader, masks, 0, 1000, True).text):
            assert set(text) <= set("0123456789.*")


def test_a_secret_that_is_not_whole_yet_is_held_back(tmp_path: Path) -> None:
    for length in range(1, len(SECRET)):
        assert shown(tmp_path / str(length), b"say " + SECRET[:length], [SECRET], final=False) == "say "


def test_many_long_values_are_found_in_one_go() -> None:
    values = [f"value-number-{number}".encode() * 3 for number in range(500)]
    data = b" ".join(values)
    ranges = mask.find(data, mask.expand(values))
    assert mask.hide(data, ranges, 0, len(data)).replace(mask.STARS, b"").strip() == b""


def test_a_long_value_that_has_begun_is_recognised() -> None:
    value = bytes(range(33, 127)) * 2000
    assert mask.unfinished(b"x" + value[:-1], [value]) == len(value) - 1
    assert mask.unfinished(value, [value]) == len(value) - 94
    assert mask.unfinished(b"abc", [value]) == 0
