r"""
Growth of time and memory
=========================

The table "Growth" of :doc:`/benchmarks` as a figure: time and memory of a solve against rows, columns, non-zeros and
edges, each at three sizes. ``make bench ARGS="growth --write docs/growth_results.inc"`` measures the numbers again.
"""

import matplotlib.pyplot as plt
from scale_tables import RESULTS, amount, seconds, table

text = RESULTS.with_name("growth_results.inc").read_text(encoding="utf-8")
lines = table(text, "Growth")
for what, sizes, *cells in lines:
    print(f"{what}: {sizes}; power of the time {cells[3]}, of the memory {cells[7]}")

# %%
# Both axes are logarithmic, so that a line of slope 1 is linear growth, as the dashed lines are. Sizes are relative to
# the smallest one of each kind.

colours = ["#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7"]
figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 4.2), layout="constrained")
for colour, (what, sizes, *cells) in zip(colours, lines, strict=True):
    counts = [int(size.replace(" ", "")) for size in sizes.split(", ")]
    growth = [count / counts[0] for count in counts]
    left.plot(growth, [seconds(cell) for cell in cells[:3]], "o-", color=colour, label=what)
    right.plot(growth, [amount(cell) / 1e6 for cell in cells[4:7]], "o-", color=colour, label=what)
for panel, label in ((left, "seconds"), (right, "memory, MB")):
    low = min(line.get_ydata()[0] for line in panel.lines)
    panel.plot([1, 100], [0.6 * low, 60 * low], "--", color="black", linewidth=1, label="slope 1")
    panel.set(xscale="log", yscale="log", xlabel="size over the smallest", ylabel=label)
    panel.grid(alpha=0.25)
figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
plt.show()
