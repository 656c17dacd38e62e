"""Every row of tests/fixtures/integrations/: a document, what is wrong with it, and what it asks for."""

import pytest

from tests.support.readings import TABLES, Row, Table, findings, understood

ROWS = [
    pytest.param(table, row, id=f"{name}: {case} {number}")
    for name, table in TABLES.items()
    for case, rows in table.cases.items()
    for number, row in enumerate(rows, 1)
]


@pytest.mark.parametrize(("table", "row"), ROWS)
def test_what_comes_of_a_document(table: Table, row: Row) -> None:
    reading = table.read(row)
    assert findings(reading, fixes="\n  fix: " in row.findings) == row.findings
    assert row.workload is None or understood(reading) == row.workload
    assert all(finding.fix for finding in (reading.findings if reading else ()) if finding.rule != "type")


def test_sub_groups_inside_each_other_without_end() -> None:
    chain = [{"name": f"s{n}", **({"parent": f"s{n - 1}"} if n else {})} for n in range(3000)]
    reading = TABLES["kai"].read(Row("PodGroup", {"spec": {"subGroups": chain}}))
    assert findings(reading).startswith("error kai/sub-group-depth")
