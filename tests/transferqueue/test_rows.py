import numpy as np
import pyarrow as pa
import pytest

from headrace.transferqueue import Column, Rows, SchemaError, TableSpec, Task

X, Y = Column(name="x", dtype="int64"), Column(name="y", dtype="list<float32>")
ROWS = Rows(
    uids=np.array([4, 5], np.int64),
    groups=np.array([2, 2], np.int64),
    attempts=np.ones(2, np.int32),
    versions=np.zeros(2, np.int64),
    carries=(None, None),
    columns={"x": pa.array([1, 2], pa.int64())},
    spec=TableSpec(name="t", columns=(X,), tasks=(Task(name="look", reads=("x",)),)),
)


def test_rows_with_another_column_have_it_by_its_type_and_keep_the_rest() -> None:
    rows = ROWS.with_columns({Y: [[0.5], []]})
    assert [each.tolist() for each in rows["y"]] == [[0.5], []]
    assert rows.spec.columns == (X, Y) and ROWS.spec.columns == (X,)
    assert list(rows.select(np.array([1]))["x"]) == [2]


def test_a_column_that_the_table_has_or_that_is_of_another_length_is_refused() -> None:
    with pytest.raises(SchemaError, match="column 'x' is declared twice"):
        ROWS.with_columns({X: [1, 2]})
    with pytest.raises(SchemaError, match="column 'y' has 1 cells for 2 rows"):
        ROWS.with_columns({Y: [[0.5]]})
    with pytest.raises(SchemaError, match="column 'y' is list<float32> and got str"):
        ROWS.with_columns({Y: [[0.5], "no"]})
