"""Metric families as a scraper reads them."""

from math import inf

import pytest
from prometheus_client.parser import text_string_to_metric_families
from toposcope.telemetry.families import Sample, exposition, family, histogram


def test_families_are_written_as_prometheus_reads_them() -> None:
    version = family("info", "toposcope_build", "Version.", ("version",), [(("1.0",), 1)])
    looks = family("counter", "toposcope_looks", "Looks\nat a \\ node.", (), [((), 3)])
    room = family("gauge", "toposcope_room", "Room.", ("rack", "name"), [(('a"\\\n', "ü"), inf), (("b", ""), -inf)])
    text = exposition([version, looks, room]).decode()
    assert text.splitlines() == [
        "# HELP toposcope_build_info Version.",
        "# TYPE toposcope_build_info gauge",
        'toposcope_build_info{version="1.0"} 1.0',
        "# HELP toposcope_looks_total Looks\\nat a \\\\ node.",
        "# TYPE toposcope_looks_total counter",
        "toposcope_looks_total 3.0",
        "# HELP toposcope_room Room.",
        "# TYPE toposcope_room gauge",
        'toposcope_room{name="ü",rack="a\\"\\\\\\n"} +Inf',
        'toposcope_room{name="",rack="b"} -Inf',
    ]
    build, _, read_room = text_string_to_metric_families(text)
    assert build.samples[0].labels == {"version": "1.0"}
    assert read_room.samples[0].labels == {"name": "ü", "rack": 'a"\\\n'}


def test_histogram_counts_each_series_by_its_last_bucket() -> None:
    series = [
        (("fast",), [(0.5, 2), (inf, 3)], 1.25),
        (("never",), [], 0.0),
    ]
    seconds = histogram("toposcope_seconds", "Seconds.", ("kind",), series)
    assert seconds.samples == (
        Sample("toposcope_seconds_bucket", {"kind": "fast", "le": "0.5"}, 2),
        Sample("toposcope_seconds_bucket", {"kind": "fast", "le": "+Inf"}, 3),
        Sample("toposcope_seconds_count", {"kind": "fast"}, 3),
        Sample("toposcope_seconds_sum", {"kind": "fast"}, 1.25),
        Sample("toposcope_seconds_count", {"kind": "never"}, 0),
        Sample("toposcope_seconds_sum", {"kind": "never"}, 0.0),
    )


def test_sample_with_other_labels_than_its_family_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        family("gauge", "toposcope_room", "Room.", ("rack",), [(("a", "b"), 1)])
