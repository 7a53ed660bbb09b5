"""What the fuzzer lets pass, each with its reason. To be kept small."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.fuzzer.judge import Finding

# Numbers at the ends of floating point, or beyond.
_EXTREME = (
    r"~?(an entry |all entries |-)*(-?1e308|5e-324|-?10\*\*400|2\*\*63|2\*\*32|huge integers)|.*beyond floats"
)


@dataclass(frozen=True)
class Allowed:
    """Patterns of findings that are expected, each of all of its field; and why."""

    reason: str
    kind: str
    name: str = ".*"
    parameter: str = ".*"
    value: str = ".*"
    waits: bool = True  # False: a call that never ends in time, and is told so without waiting

    def covers(self, finding: Finding) -> bool:
        """Whether a finding is one of these."""
        fields = ("kind", "name", "parameter", "value")
        return all(re.fullmatch(getattr(self, field), getattr(finding, field)) for field in fields)


RIGHT = (
    Allowed("atoms compute as floating point does: NaN and infinity pass", "nan|infinite", r".*\batoms\..*"),
    Allowed("a threshold of infinity leaves nothing; NaN and infinity pass", "nan|infinite", r".*soft_threshold.*"),
    Allowed("losses for JAX cannot refuse what is traced: NaN and infinity pass", "nan|infinite", r".*jax_losses.*"),
    Allowed("infinity is no bound", "infinite", parameter="bound|strong|(dis)?trusted|gamma|alpha|upper"),
    Allowed("a query on which the measure is not defined is NaN, as documented", "nan", parameter="per_query"),
    Allowed("the precision of no rows is NaN", "nan", r".*(promises\.threshold|PromisedThreshold|RateConstrained).*"),
    Allowed("the range of a column without values is NaN", "nan", r".*ThresholdFeatures.*", "X"),
    Allowed("without a solution there is no bound at it", "nan", r".*perturbation_bound.*", "solution"),
    Allowed("a solve that is stopped at once proves nothing", "infinite", parameter="max_iter|time_limit"),
    Allowed("outside the polytope there is no value", "infinite", r".*PolytopeEntropy.*", "vertices"),
    Allowed("a link without a modulus has intervals without ends", "infinite", r".*\bLink.*"),
    Allowed("before there is a pair there is no estimate, as documented", "nan", r".*monitor.*", "when"),
    Allowed("1 of another type than an integer is a share", "changed", r".*_at.*", "k", r"~(exact|in extended).*"),
    Allowed("a cut-off may be a share only without qid", "other name", r".*precision_at.*", "qid"),
    Allowed("of two arguments that do not fit either may be named", "other name", parameter="threshold|n|length"),
    Allowed("the caller's own", "foreign", parameter="callback|rank|progress|scoring|solver|reference", value="class"),
    Allowed("the same of the function that is told comparisons", "foreign", r".*\bverify\b.*", "verbose", "class"),
    Allowed("the caller's own, of scores of tuples", "foreign", r".*m_ary_risk.*", "s|loss", "class"),
    Allowed("a file that is not there is named by Python", "foreign", parameter="paths"),
    Allowed("a tolerance out of reach is worked at until a limit", "slow", parameter="tol", value="5e-324"),
    Allowed("without a penalty nothing bounds the minimiser", "infinite", parameter="l2", value="0|-0.0"),
    Allowed("sparse data have another default solver", "changed", value="~sparse.*"),
    Allowed("ids of queries are called qid everywhere", "nameless", r".*jax_losses.*", "query"),
    Allowed("a large power of a number above 1 is beyond floating point", "infinite", r".*Power.*", "p"),
    Allowed("the same of a price: no value is finite", "nan|infinite", parameter="price", value=r"2\*\*.*|uint8"),
    Allowed("so many rounds, processes or folds take their time", "slow", parameter="rounds|n_jobs|cv|instances"),
    Allowed("a set that is nearly a line takes all steps", "slow", r".*RealizableLink.*", "X", _EXTREME, False),
    Allowed("so large a strength takes all steps", "slow", parameter="score_reg", value=r"2\*\*63"),
    Allowed("nothing is proved of data whose scores overflow", "infinite", parameter="X", value=_EXTREME),
    Allowed("numpy says that the scores of a point overflow", "warning", parameter="w|x", value=_EXTREME),
    Allowed("the same of new rows", "warning", r".*(predict|explain).*", "X", _EXTREME),
    Allowed("matplotlib says that it widens an axis of one value", "warning", r".*plotting.*", value=_EXTREME),
    Allowed("the scale of such features is what the strength follows", "nameless", r".*SingleIndex.*", "X", _EXTREME),
    Allowed("without an excess no constant is enough, as documented", "infinite", r".*noise_constant.*"),
    Allowed("all claims are asked for, some with infinite numbers", "slow|infinite", r".*claims.*"),
    Allowed("points are compared where the minimiser is unique", "nan", r".*verify", "target", "None"),
    Allowed("all problems are asked for", "slow", r".*verify", "target", "None|empty.*|list of None"),
    Allowed("text names a file that another call made", "nameless", r".*read_.*", "paths?", "(numpy )?text.*"),
)  # fmt: skip


def is_endless(name: str, parameter: str, value: str) -> bool:
    """Whether a call takes all the time that it is given, as is allowed."""
    slow = Finding(name, parameter, value, "slow", "")
    return any(allowed.covers(slow) and not allowed.waits for allowed in RIGHT)


def is_allowed(finding: Finding) -> bool:
    """Whether a finding is expected."""
    return any(allowed.covers(finding) for allowed in RIGHT)
