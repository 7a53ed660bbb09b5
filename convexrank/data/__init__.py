"""Validation of arguments, readers of data files, and small generated data sets."""

from __future__ import annotations

from convexrank.data.checks.arrays import (
    Matrix,
    check_binary_labels,
    check_groups,
    check_matrix,
    check_pairs,
    check_positive_weights,
    check_real_array,
    check_vector,
    check_weights,
    read_array,
)
from convexrank.data.checks.spectra import Spectrum, check_distributions, check_kernel, check_spectrum
from convexrank.data.checks.values import (
    check_at_least,
    check_choice,
    check_flag,
    check_flags,
    check_fraction,
    check_function,
    check_hashable,
    check_integer,
    check_interval,
    check_label,
    check_list,
    check_node,
    check_nonnegative,
    check_path,
    check_positive,
    check_probability,
    check_real,
    check_share,
)
from convexrank.data.chunks.chunks import Chunks
from convexrank.data.fields import keep, keep_checked, refuse_edited
from convexrank.data.files.letor import LetorData, read_letor, read_query_sizes, write_query_sizes
from convexrank.data.files.tables import TableData, read_columns, read_table
from convexrank.data.folds import LetorFold, letor_folds
from convexrank.data.frames import (
    check_same_index,
    codes_of,
    in_node_order,
    index_of,
    is_missing,
    refuse_missing,
)
from convexrank.data.groups import QueryGroups, as_groups
from convexrank.data.messages import did_you_mean, shown
from convexrank.data.nodes import check_nodes
from convexrank.data.samples import (
    Sample,
    WebSample,
    load_dose_response,
    load_queries,
    load_screening,
    load_web,
)
from convexrank.data.shards.dask_rows import DaskRows
from convexrank.data.shards.shards import Shards
from convexrank.data.shards.watch import RankError
from convexrank.data.sparse_matrices import well_formed

__all__ = [
    "Chunks",
    "DaskRows",
    "LetorData",
    "LetorFold",
    "Matrix",
    "QueryGroups",
    "RankError",
    "Sample",
    "Shards",
    "Spectrum",
    "TableData",
    "WebSample",
    "as_groups",
    "check_at_least",
    "check_binary_labels",
    "check_choice",
    "check_distributions",
    "check_flag",
    "check_flags",
    "check_fraction",
    "check_function",
    "check_groups",
    "check_hashable",
    "check_integer",
    "check_interval",
    "check_kernel",
    "check_label",
    "check_list",
    "check_matrix",
    "check_node",
    "check_nodes",
    "check_nonnegative",
    "check_pairs",
    "check_path",
    "check_positive",
    "check_positive_weights",
    "check_probability",
    "check_real",
    "check_real_array",
    "check_same_index",
    "check_share",
    "check_spectrum",
    "check_vector",
    "check_weights",
    "codes_of",
    "did_you_mean",
    "in_node_order",
    "index_of",
    "is_missing",
    "keep",
    "keep_checked",
    "letor_folds",
    "load_dose_response",
    "load_queries",
    "load_screening",
    "load_web",
    "read_array",
    "read_columns",
    "read_letor",
    "read_query_sizes",
    "read_table",
    "refuse_edited",
    "refuse_missing",
    "shown",
    "well_formed",
    "write_query_sizes",
]
