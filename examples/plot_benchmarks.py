r"""
Time beside other packages
==========================

The tables of :doc:`/benchmarks` as one figure: the time of convexrank over the time of another package that solves the
same problem, or a problem of the same kind. Left of the line convexrank is faster. ``make bench`` measures the numbers
again.
"""

import matplotlib.pyplot as plt
from benchmark_ratios import ratios, written

found = ratios(written())
packages = list(dict.fromkeys(package for package, _, _ in found))
for package in packages:
    numbers = [ratio for other, _, ratio in found if other == package]
    print(f"{package:20} {len(numbers)} comparisons, {min(numbers):.2f} to {max(numbers):.2f} of its time")

# %%
# Tasks differ between the packages: LogisticRegression minimises another loss on the same rows, and LightGBM fits
# trees. liblinear and celer have a penalty of the same kind.

colours = dict(zip(packages, ("#0072b2", "#d55e00", "#009e73", "#cc79a7"), strict=False))
figure, panel = plt.subplots(figsize=(8.4, 0.32 * len(found) + 1.2), layout="constrained")
for place, (package, _, ratio) in enumerate(reversed(found)):
    panel.plot([1.0, ratio], [place, place], color=colours[package], linewidth=2)
    panel.plot(ratio, place, "o", color=colours[package])
panel.set_yticks(
    range(len(found)), [f"{what} · {package}" for package, what, _ in reversed(found)], fontsize=8
)
panel.axvline(1.0, color="black", linewidth=1)
panel.set(xscale="log", xlabel="time of convexrank / time of the other package")
ticks = [0.05, 0.1, 0.2, 0.5, 1, 2, 5]
panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
panel.minorticks_off()
panel.grid(axis="x", alpha=0.25)
plt.show()
