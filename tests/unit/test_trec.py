"""TREC runs and judgments: read exactly or refused with their line, and written to be read back."""

from __future__ import annotations

import gzip
import math
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbeval.errors import InputError, KbevalError
from kbeval.formats import text
from kbeval.formats.beir import write_qrels_tsv
from kbeval.formats.trec import (
    escape_id,
    read_qrels,
    read_run,
    run_name,
    run_names,
    unescape_id,
    write_run,
    write_trec_qrels,
)
from kbeval.model import Qrels

Row = tuple[str, str, float]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.txt"


def run_rows(file: Path, content: bytes | str) -> list[Row]:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    run = read_run(file)
    assert run.frame.schema == {"query": pl.String, "document": pl.String, "score": pl.Float64}
    assert run.warnings == ()
    return run.frame.rows()


def run_error(file: Path, content: bytes | str) -> InputError:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as raised:
        read_run(file)
    assert str(raised.value).startswith(str(file))
    assert "\n" not in str(raised.value)
    return raised.value


# --- runs: what separates

TWO_ROWS = [("q1", "d2", 5.0), ("q1", "d1", 4.0)]


@pytest.mark.parametrize(
    "content",
    [
        b"q1 Q0 d1 2 4 t\nq1 Q0 d2 1 5 t\n",
        b"q1 Q0 d1 2 4 t\nq1 Q0 d2 1 5 t",
        b"q1\tQ0\td1\t2\t4\tt\nq1\tQ0\td2\t1\t5\tt\n",
        b"q1\tQ0\td1\t2\t4\tt\nq1 Q0 d2 1 5 t\n",
        b"  q1 \t Q0  d1\t\t2 4   t  \n\t q1 Q0 d2 1 5 t\t\n",
        b"q1\vQ0\fd1\v2\f4\vt\nq1\rQ0\rd2\r1\r5\rt\n",
        b"q1 Q0 d1 2 4 t\r\nq1 Q0 d2 1 5 t\r\n",
        b"q1 Q0 d1 2 4 t\r\r\nq1 Q0 d2 1 5 t \r\n",
        b"q1 Q0 d1 2 4 t\nq1 Q0 d2 1 5 t\r\n",
        b"\n\n  \nq1 Q0 d1 2 4 t\n\r\n\t\nq1 Q0 d2 1 5 t\n\n",
        b"q1 Q0 d1 2 4 a tag of words\nq1 Q0 d2 1 5 t 1 2 3\n",
        b"q1 0 d1 2 4 t\nq1 whatever d2 1 5 #t\n",
        b"\xef\xbb\xbfq1 Q0 d1 2 4 t\nq1 Q0 d2 1 5 t\n",
        b"q1 Q0 d1 2 4 \xc3\xa9t\xc3\xa9\nq1 Q0 d2 1 5 \xc2\xa0\n",
        b"q1 Q0 d1 02 +4 t\nq1 Q0 d2 1.0 5e0 t\n",
    ],
)
def test_any_run_of_the_six_blanks_separates(file: Path, content: bytes) -> None:
    assert run_rows(file, content) == TWO_ROWS


@pytest.mark.parametrize("blank", ["\xa0", "\u2003", "\u3000", "\x85", "\u2028", "\x1c", "\x1f", "\ufeff", "\x01"])
@pytest.mark.parametrize("separator", [" ", "  "])
def test_other_blanks_are_part_of_an_id(file: Path, blank: str, separator: str) -> None:
    fields = separator.join(["q1", "Q0", f"a{blank}b", "1", "5", "t"])
    assert run_rows(file, fields) == [("q1", f"a{blank}b", 5.0)]


@pytest.mark.parametrize("separator", [" ", "\t", " \t"])
@pytest.mark.parametrize(
    "identifier",
    [
        "007",
        "1e5",
        "nan",
        "null",
        "NA",
        "true",
        '"',
        '"quoted"',
        "a,b",
        "#",
        "a#1",
        "%20",
        "\\N",
        "'",
        "é",
        "x" * 5000,
    ],
)
def test_ids_are_strings_of_any_other_bytes(file: Path, identifier: str, separator: str) -> None:
    fields = separator.join([identifier, "Q0", identifier, "1", "5", "t"])
    assert run_rows(file, fields) == [(identifier, identifier, 5.0)]


def test_empty_fields_between_single_blanks_do_not_shift_columns(file: Path) -> None:
    # Cut at each single blank, this would be document "Q0" at rank 5.
    assert run_rows(file, "q1  Q0 5 1 2.5 t\n") == [("q1", "5", 2.5)]
    assert run_error(file, "q1  Q0 5 1 2.5\n").line == 1


# --- runs: numbers


@pytest.mark.parametrize(
    ("score", "value"),
    [
        ("1e-5", 0.00001), ("+3", 3.0), (".5", 0.5), ("5.", 5.0), ("-0", -0.0), ("1E+2", 100.0),
        ("-.5e1", -5.0), ("0.1", 0.1), ("1e-400", 0.0), ("00.50", 0.5),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("0.30000000000000004", 0.1 + 0.2), ("9007199254740993", 9007199254740992.0), ("4.9e-324", 5e-324),
    ],
)  # fmt: skip
@pytest.mark.parametrize("separator", [" ", "  "])
def test_decimal_floats_are_read_to_the_last_bit(file: Path, score: str, value: float, separator: str) -> None:
    [(_, _, read)] = run_rows(file, separator.join(["q1", "Q0", "d1", "1", score, "t"]))
    assert (read, math.copysign(1, read)) == (value, math.copysign(1, value))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20), st.integers(1, 20))
def test_scores_are_read_as_python_reads_them(scores: list[float], digits: int) -> None:
    words = [repr(score) for score in scores] + [f"{score:.{digits}e}" for score in scores]
    words = [word for word in words if math.isfinite(float(word))]
    content = "".join(f"q{n:03} Q0 d 1 {word} t\n" for n, word in enumerate(words))
    with tempfile.TemporaryDirectory() as folder:
        rows = run_rows(Path(folder) / "run", content)
    assert [score for _, _, score in rows] == [float(word) for word in words]


@pytest.mark.parametrize(
    "score",
    [
        "1,5", "nan", "NaN", "-nan", "abc", "inf", "-inf", "Infinity", "0x1p3", "0x10", "1_000", "1e999",
        "-1e999", "1e", "e5", ".", "-", "+", "--1", "1.2.3", "1f", "1d5", "1e5.0", "\u0661", "1\xa0",
        "\uff11", "true", "null",
    ],
)  # fmt: skip
@pytest.mark.parametrize("separator", [" ", "\t", "  "])
def test_anything_else_is_no_score(file: Path, score: str, separator: str) -> None:
    good = separator.join(["q1", "Q0", "d1", "1", "2.5", "t"])
    bad = separator.join(["q7", "Q0", "d1", "1", score, "t"])
    error = run_error(file, f"{good}\n\n{bad}\n")
    assert error.line == 3
    assert error.expected == "a finite decimal number as score (column 5)"
    assert error.found == f"{score!r} (query 'q7')"


@pytest.mark.parametrize("rank", ["first", "1.5", "2147483647.5", "nan", "1,0", "-", "0x1"])
def test_a_rank_is_a_whole_number(file: Path, rank: str) -> None:
    error = run_error(file, f"q1 Q0 d1 {rank} 2.5 t\n")
    assert (error.line, error.found) == (1, f"{rank!r} (query 'q1')")
    assert error.expected == "a whole number as rank (column 4)"


def test_rank_and_score_in_each_others_place_are_noticed(file: Path) -> None:
    assert "rank" in run_error(file, "q1 Q0 d1 0.75 1 t\n").expected


# --- runs: what is refused


@pytest.mark.parametrize("content", [b"", b"\n \r\n\t\n", b"\xef\xbb\xbf", b"# nothing but a comment\n"])
def test_a_run_without_a_line_is_refused(file: Path, content: bytes) -> None:
    assert run_error(file, content).found == "none"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("q1", "1 column"),
        ("q1 Q0 d2", "3 columns"),
        ("q1 Q0 d2 2 1.0", "5 columns"),
        ("q1 Q0 d2 2 1.0 ", "5 columns"),
    ],
)
def test_a_line_cut_short_is_refused(file: Path, line: str, found: str) -> None:
    error = run_error(file, f"q1 Q0 d1 1 2.0 t\n{line}\nq1 Q0 d3 3 0.5 t\n")
    assert (error.line, error.found) == (2, found)
    assert error.expected == "6 columns (query Q0 document rank score tag)"


def test_lines_that_end_with_cr_alone_are_not_taken_for_a_tag(file: Path) -> None:
    error = run_error(file, b"q1 Q0 d1 1 2.0 t\rq1 Q0 d2 2 1.0 t\r")
    assert (error.line, error.expected) == (1, "lines that end with LF or CRLF")


@pytest.mark.parametrize("place", range(6))
def test_bytes_that_are_not_utf8_are_refused_wherever_they_stand(file: Path, place: int) -> None:
    fields = [b"q1", b"Q0", b"d2", b"2", b"1.0", b"t"]
    fields[place] += b"\xe9"
    error = run_error(file, b"q1 Q0 d1 1 2.0 t\n" + b" ".join(fields) + b"\n")
    assert (error.line, error.expected) == (2, "UTF-8 text")
    assert "0xe9" in error.found


def test_nul_bytes_are_refused(file: Path) -> None:
    assert "NUL" in run_error(file, b"q1 Q0 d\x001 1 2.0 t\n").found
    assert "NUL" in run_error(file, "q1 Q0 d1 1 2.0 t\n".encode("utf-16-le")).found


def test_a_byte_order_mark_inside_a_file_is_refused(file: Path) -> None:
    joined = b"\xef\xbb\xbfq1 Q0 d1 1 2.0 t\n" * 2
    assert run_error(file, joined).line == 2


def test_a_document_twice_in_a_query_is_refused_with_both_lines(file: Path) -> None:
    error = run_error(file, "q1 Q0 d1 1 9 t\n\nq2 Q0 d1 1 9 t\nq1 Q0 d3 2 8 t\nq1 Q0 d1 3 7 t\nq1 Q0 d3 4 6 t\n")
    assert error.line == 5
    assert error.found == "document 'd1' of query 'q1' again, after line 1"
    assert run_error(file, "q1 Q0 d1 1 9 t\nq1 Q0 d1 1 9 t\n").line == 2


def test_messages_stay_short_and_on_one_line(file: Path) -> None:
    error = run_error(file, b"q1 Q0 d1 1 " + b"x\x1b\xc2\x85" * 1000 + b" t\n")
    assert len(error.found) < 100
    assert "\x1b" not in str(error)


def test_a_comment_is_a_line_with_a_hash_that_cannot_be_data(file: Path) -> None:
    content = "# a run of mine\n#q1 Q0 d1 1 2.0 t\nq2 Q0 #d 1 2.0 #t\n# q1 Q0 d1 1 two t\n"
    assert run_rows(file, content) == [("#q1", "d1", 2.0), ("q2", "#d", 2.0)]
    # Six columns, a whole number, a decimal number: this comment can be read as data, and is.
    assert ("#", "d1", 1.0) in run_rows(file, "# Q0 d1 1 1.0 t\n")
    assert run_error(file, " # not at the start\n").line == 1


def test_line_numbers_hold_across_blocks(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 40)
    lines = [f"q{n // 10} Q0 d{n} {n % 10} {-n} t" for n in range(200)]
    assert len(run_rows(file, "\n".join(lines))) == 200
    lines[150] = lines[150].replace("-150", "nan")
    assert run_error(file, "\n".join(lines)).line == 151
    lines[150] = lines[3]
    error = run_error(file, "\n".join(lines))
    assert (error.line, error.found[-6:]) == (151, "line 4")


# --- runs: order and rank


def test_a_run_is_in_the_one_order_whatever_the_order_of_its_lines(file: Path) -> None:
    content = "9 Q0 a 1 1 t\n10 Q0 x 1 2 t\n9 Q0 b 2 1 t\n10 Q0 y 2 3 t\n"
    run = "".join(f"{line}\n" for line in content.splitlines())
    file.write_text(run)
    assert read_run(file).frame.rows() == [
        ("10", "y", 3.0),
        ("10", "x", 2.0),
        ("9", "b", 1.0),
        ("9", "a", 1.0),
    ]


def warnings_of(file: Path, *lines: str) -> tuple[str, ...]:
    file.write_text("".join(f"{line} t\n" for line in lines))
    return read_run(file, name="mine").warnings


def test_a_rank_that_contradicts_its_score_is_one_warning(file: Path) -> None:
    assert warnings_of(file, "q1 Q0 d1 1 0.10", "q1 Q0 d2 2 0.90", "q1 Q0 d3 3 0.50") == (
        "mine: the rank contradicts the score on 1 line (first: query 'q1', line 1); the score decides",
    )
    # By score: d2 (rank 3), d3 (2), d1 (1); the last two stand too well. q0 is first by id, not in the file.
    assert warnings_of(
        file, "# comment", "q1 Q0 d1 1 1", "q1 Q0 d2 3 3", "q1 Q0 d3 2 2", "q0 Q0 a 5 9", "q0 Q0 b 4 8"
    ) == ("mine: the rank contradicts the score on 3 lines (first: query 'q1', line 2); the score decides",)


def test_ranks_that_contradict_nothing_are_no_warning(file: Path) -> None:
    assert warnings_of(file, "q1 Q0 a 0 3", "q1 Q0 b 0 2", "q1 Q0 c 0 1") == ()
    assert warnings_of(file, "q1 Q0 a 2 1", "q1 Q0 b 1 1", "q1 Q0 c 3 1", "q1 Q0 d 3 0") == ()
    assert warnings_of(file, "q1 Q0 b 20 1", "q2 Q0 a 1 9", "q1 Q0 a 10 2", "q2 Q0 b 5 8") == ()
    assert warnings_of(file, f"q1 Q0 a 1 {2**70}", f"q1 Q0 b {2**70} 1", f"q1 Q0 c {2**71} 0") == ()


def test_ties_hide_no_contradiction(file: Path) -> None:
    # By the one order c (3) and a (1) tie above b (2): b stands above c by rank alone.
    assert "on 1 line (first: query 'q1', line 3)" in warnings_of(
        file, "q1 Q0 a 1 5", "q1 Q0 c 3 5", "q1 Q0 b 2 4", "q2 Q0 a 1 5", "q2 Q0 b 2 4"
    )[0]  # fmt: skip


def test_a_gzipped_run_reads_the_same(file: Path) -> None:
    assert run_rows(file, gzip.compress(b"q1 Q0 d1 2 4 t\n") + gzip.compress(b"q1 Q0 d2 1 5 t\n")) == TWO_ROWS


# --- qrels


def judgments(file: Path, content: bytes | str) -> list[tuple[str, str, int]]:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    qrels = read_qrels(file)
    assert qrels.frame.schema == {"query": pl.String, "document": pl.String, "grade": pl.Int64}
    assert qrels.warnings == ()
    return qrels.frame.rows()


def qrels_error(file: Path, content: bytes | str) -> InputError:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as raised:
        read_qrels(file)
    assert "\n" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize(
    "content",
    [
        b"q1 0 d1 1\nq1 0 d2 2\n",
        b"q1\t0\td1\t1\nq1 Q0  d2   2",
        b"\n q1 0 d1 1.0 \r\n\r\nq1 0 d2 +2\r\n",
        b"# a comment\nq1 0 d1 1\n#\nq1 0 d2 2\n",
        b"query_id iteration document_id relevance\nq1 0 d1 1\nq1 0 d2 2\n",
        b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t2\n",
        b"\xef\xbb\xbfquery-id\tcorpus-id\tscore\r\nq1\td1\t1\r\nq1\td2\t2\r\n",
        b"query_id\tdoc_id\trelevance\nq1\td1\t1\nq1\td2\t2",
        b"qid\tpid\tlabel\n\nq1\td1\t1.0\n\nq1\td2\t 2 \n",
        b"q1\td1\t1\nq1\td2\t2\n",
        b"q1\td1\t1e0\r\r\nq1\td2\t002\n",
    ],
)
def test_both_layouts_are_told_by_content(file: Path, content: bytes) -> None:
    assert judgments(file, content) == [("q1", "d2", 2), ("q1", "d1", 1)]


def test_judgments_are_ordered_by_query_then_grade_then_document(file: Path) -> None:
    content = "q2 0 a 1\nq10 0 a 0\nq10 0 b -1\nq10 0 c 3\nq10 0 d 3\n"
    assert judgments(file, content) == [
        ("q10", "d", 3), ("q10", "c", 3), ("q10", "a", 0), ("q10", "b", -1), ("q2", "a", 1)
    ]  # fmt: skip


def test_tab_separated_ids_may_hold_blanks_quotes_and_hashes(file: Path) -> None:
    content = 'query-id\tcorpus-id\tscore\n#q 1\t a "b\xa0\v\t1\nq\tc d\t0\n'
    assert judgments(file, content) == [("#q 1", ' a "b\xa0\v', 1), ("q", "c d", 0)]


def test_what_could_be_either_layout_is_refused(file: Path) -> None:
    assert "could be BEIR's 3 columns and TREC's 4" in qrels_error(file, "q1\tfaq one\t1\nq1\tfaq two\t1\n").found
    assert judgments(file, "query-id\tcorpus-id\tscore\nq1\tfaq one\t1\n") == [("q1", "faq one", 1)]


@pytest.mark.parametrize("grade", ["1.9", "0.5", "nan", "inf", "one", "1,0", "", "0x1", "1e400"])
def test_a_grade_is_a_whole_number(file: Path, grade: str) -> None:
    error = qrels_error(file, f"query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t{grade}\n")
    assert (error.line, error.expected, error.found) == (3, "a whole number as grade (column 3)", repr(grade))
    if grade:
        assert qrels_error(file, f"q1 0 d1 1\nq1 0 d2 {grade}\n").line == 2


def test_a_grade_fits_32_bits(file: Path) -> None:
    assert judgments(file, "q1 0 d1 2147483647\nq1 0 d2 -2147483647\n") == [
        ("q1", "d1", 2147483647), ("q1", "d2", -2147483647)
    ]  # fmt: skip
    for grade in ("2147483648", "-2147483648", "1e300", "9" * 400):
        assert qrels_error(file, f"q1 0 d1 {grade}\n").line == 1


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("q1 0 d1 1\nq1 0 d2\n", 2),
        ("q1 0 d1 1\nq1 0 d2 1 extra\n", 2),
        ("q1\t0\td1\t1\nq1\t0\t184\nq2\t0\td1\t1\n", 2),
        ("q1\td1\t1\nq1\td2\nq2\td1\t1\n", 2),
        ("query-id\tcorpus-id\tscore\nq1\td1\t1\nq1 d2 1\n", 3),
        ("query-id\tcorpus-id\tscore\nq1\t0\td1\t1\n", 2),
        ("query-id\tcorpus-id\tscore\nq1\t\t1\n", 2),
        ("query-id\tcorpus-id\tscore\n \td1\t1\n", 2),
        ("query-id\tcorpus-id\tscore\n# comment\nq1\td1\t1\n", 2),
        ("query-id\tcorpus-id\tscore\rq1\td1\t1\r", 1),
        ("query-id\tcorpus-id\tscore\nq1\td\r1\t1\n", 2),
        ("corpus-id\tquery-id\tscore\nd1\tq1\t1\n", 1),
        ("foo\tbar\tbaz\nq1\td1\t1\n", 1),
        ("q1\td1\tx\nq1\td2\t1\n", 1),
        ("q1 0 d1 1\nq\0 0 d1 1\n", 2),
    ],
)
def test_a_malformed_judgment_is_refused_with_its_line(file: Path, content: str, line: int) -> None:
    assert qrels_error(file, content).line == line


def test_qrels_that_are_not_utf8_are_refused(file: Path) -> None:
    assert qrels_error(file, b"q1 0 d1 1\nq1 0 caf\xe9 1\n").line == 2


@pytest.mark.parametrize("content", ["", "\n\n", "query-id\tcorpus-id\tscore\n", "# only a comment\n"])
def test_no_judgment_at_all_is_refused(file: Path, content: str) -> None:
    assert qrels_error(file, content).found == "none"


def test_a_repeated_judgment_is_a_warning_and_counted_once(file: Path) -> None:
    file.write_text("q1 0 d1 1\nq1 0 d2 1\n\nq1 0 d1 1.0\nq1 0 d1 1\n")
    qrels = read_qrels(file)
    assert qrels.frame.rows() == [("q1", "d2", 1), ("q1", "d1", 1)]
    first = "document 'd1' of query 'q1', lines 1 and 4"
    assert qrels.warnings == (f"file.txt: 2 judgments are repeated, and counted once (first: {first})",)


def test_contradicting_judgments_are_refused_with_both_lines(file: Path) -> None:
    error = qrels_error(file, "q1 0 d9 1\nq1 0 d9 1\nq2 0 d1 0\nq1 0 d2 1\nq2 0 d1 2\n")
    assert (error.line, error.found) == (5, "2, after 0 on line 3")
    assert error.expected == "one grade for document 'd1' of query 'q2'"


# --- writing

identifiers = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def frame(rows: list[Row]) -> pl.DataFrame:
    schema = {"query": pl.String, "document": pl.String, "score": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_a_run_is_written_as_trec_lines(file: Path) -> None:
    write_run(file, frame([("q2", "a", 1.5), ("q1", "b", 0.25), ("q1", "a", 1e-7)]), "tag")
    assert file.read_text() == "q1 Q0 b 1 0.25 tag\nq1 Q0 a 2 1e-7 tag\nq2 Q0 a 1 1.5 tag\n"


def test_a_run_without_a_row_is_an_empty_file(file: Path) -> None:
    write_run(file, frame([]), "tag")
    assert file.read_bytes() == b""


@settings(max_examples=40, deadline=None)  # each waits for the disk
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=12))
def test_what_is_written_reads_back_in_the_same_order(scores: list[float]) -> None:
    ranking = [("q", f"d{place * 7 % len(scores)}x{place}", score) for place, score in enumerate(scores)]
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder) / "run", frame(ranking), "tag")
        run = read_run(Path(folder) / "run")
    assert run.warnings == ()
    assert run.frame["document"].to_list() == [document for _, document, _ in ranking]
    narrow = run.frame["score"].to_numpy().astype(np.float32)
    assert (narrow[1:] < narrow[:-1]).all()


def test_only_the_queries_that_need_it_get_other_scores(file: Path) -> None:
    write_run(file, frame([("q1", "a", 1.0), ("q1", "b", 1.0), ("q2", "a", 0.3), ("q2", "b", 0.1)]), "tag")
    scores = read_run(file).frame["score"].to_list()
    assert scores[2:] == [0.3, 0.1]
    assert scores[0] == 1.0 > scores[1] > 0.999


@pytest.mark.parametrize("identifier", ["a b", "a\tb", "a\nb", "a\rb", "\va", "a\f", "", "a\0b", "\ufeffa"])
def test_an_id_that_would_not_read_back_is_refused(file: Path, identifier: str) -> None:
    for rows in ([("q", identifier, 1.0)], [(identifier, "d", 1.0)]):
        with pytest.raises(KbevalError, match="a TREC file cannot hold") as raised:
            write_run(file, frame(rows), "tag")
        assert "\n" not in str(raised.value)
        with pytest.raises(KbevalError, match="a TREC file cannot hold"):
            write_trec_qrels(file, qrels_of([(query, document, 1) for query, document, _ in rows]))
    assert not file.exists()


@pytest.mark.parametrize("tag", ["", "two words", "a\tb", "100%"])
def test_a_tag_is_one_word(file: Path, tag: str) -> None:
    with pytest.raises(KbevalError, match="tag of a run must be one word"):
        write_run(file, frame([("q", "d", 1.0)]), tag)


def qrels_of(rows: list[tuple[str, str, int]]) -> Qrels:
    schema = {"query": pl.String, "document": pl.String, "grade": pl.Int64}
    return Qrels(pl.DataFrame(rows, schema=schema, orient="row"))


@settings(max_examples=40, deadline=None)
@given(st.sets(st.tuples(identifiers, identifiers), min_size=1, max_size=6))
def test_escaped_ids_read_back_as_they_were(pairs: set[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run, qrels = Path(folder) / "run", Path(folder) / "qrels"
        write_run(run, frame([(*pair, 1.0) for pair in pairs]), "tag", escape_ids=True)
        write_trec_qrels(qrels, qrels_of([(*pair, 1) for pair in pairs]), escape_ids=True)
        tables = (read_run(run).frame, read_qrels(qrels).frame)
    for table in tables:
        assert {(unescape_id(row[0]), unescape_id(row[1])) for row in table.rows()} == pairs


def test_escaping_is_percent_encoding() -> None:
    assert escape_id("Release notes\t100%.md") == "Release%20notes%09100%25.md"
    assert escape_id("a\xa0b") == "a%C2%A0b"  # other tools cut here
    assert unescape_id("50%, %zz %FF") == "50%, %zz %FF"


def test_qrels_are_written_in_both_layouts(file: Path) -> None:
    rows = [("q1", "b", 2), ("q1", "a", -1)]
    write_trec_qrels(file, qrels_of(rows))
    assert file.read_text() == "q1 0 b 2\nq1 0 a -1\n"
    assert judgments(file, file.read_bytes()) == rows
    write_qrels_tsv(file, qrels_of(rows))
    assert file.read_text() == "query-id\tcorpus-id\tscore\nq1\tb\t2\nq1\ta\t-1\n"
    assert judgments(file, file.read_bytes()) == rows


# --- names


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("runs/bm25.trec", "bm25"), ("bm25.run.gz", "bm25"), ("a.res", "a"), ("a.txt", "a"), ("a.gz", "a"),
        ("a.trec.txt", "a.trec"), ("bm25.k1.2", "bm25.k1.2"), ("noext", "noext"), (".trec", ".trec"),
        ("a.jsonl", "a.jsonl"), (Path("x") / "b.trec.gz", "b"),
    ],
)  # fmt: skip
def test_a_run_is_named_after_its_file(path: str | Path, name: str) -> None:
    assert run_name(path) == name


def test_equal_names_get_their_folder_in_front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert run_names(["x/a.trec", "b.trec", "y/a.run.gz", "a.txt"]) == ["x/a", "b", "y/a", "here/a"]


def test_equal_names_get_as_many_folders_as_it_takes() -> None:
    assert run_names(["1/x/a.trec", "2/x/a.trec", "b.trec"]) == ["1/x/a", "2/x/a", "b"]


def test_one_file_given_twice_is_refused() -> None:
    with pytest.raises(KbevalError, match="2 runs are named"):
        run_names(["a.trec", "./a.trec"])
