r"""
Time to a true accuracy
=======================

The table "Time to a true accuracy" of :doc:`/benchmarks` as a figure. In each panel all solvers minimise the same
objective, or rank the same graph, at several tolerances. The true error is the distance to a lower bound of the optimum
that a certificate proves, whatever a solver reports. ``make bench ARGS="accuracy --write docs/accuracy_results.inc"``
measures the numbers again.
"""

import math

import matplotlib.pyplot as plt
from scale_tables import RESULTS, seconds, table

text = RESULTS.with_name("accuracy_results.inc").read_text(encoding="utf-8")
runs = [row[:5] for row in table(text, "Time to a true accuracy")]
for what, who, asked, time, error in runs:
    print(f"{what:28} {who:16} {asked:>6} {time:>9}  error {error}")

# %%
# Further left is faster, further down is more accurate. Points of one solver are joined in the order of their
# tolerances. A solver without a tolerance has one point.

names = list(dict.fromkeys(what for what, *_ in runs))
colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"]
figure, panels = plt.subplots(2, 2, figsize=(8.4, 7.0), layout="constrained")
for panel, name in zip(panels.flat, names, strict=True):
    own = [run for run in runs if run[0] == name]
    solvers = dict.fromkeys(who for _, who, *_ in own)
    for colour, solver in zip(colours[: len(solvers)], solvers, strict=True):
        points = [(seconds(time), float(error)) for _, who, _, time, error in own if who == solver]
        panel.plot(*zip(*points, strict=True), "o-", color=colour, markersize=5, label=solver)
    times = [seconds(time) for _, _, _, time, _ in own]
    ends = 10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times)))
    panel.set(xscale="log", yscale="log", title=name, xlabel="seconds", xlim=ends, ylim=(1e-17, 1.0))
    panel.grid(alpha=0.25)
    panel.tick_params(axis="x", which="minor", labelbottom=False)
    panel.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.17), frameon=False)
for panel in panels[:, 0]:
    panel.set_ylabel("true error")
plt.show()
