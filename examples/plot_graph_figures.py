r"""
Figures 6.5 to 6.9 and 6.11 of the dissertation
===============================================

Section 6.4 of the dissertation ranks a web graph of 0.4 million pages, 20 % of them spam, by :math:`L_p` and
:math:`L_{p,q}` ranks. That graph is not at hand. Here are three others with labelled nodes: cs.stanford.edu with twelve
drawn farms, the Pokec network with a copy of itself as Sybils, and dealers in iron, of whom 20 are known as bad. The
numbers are in ``examples/results/graph_figures.json``; with the data at hand they take a few minutes::

    python examples/graph_figures.py
"""

import graph_figures as figures
import matplotlib.pyplot as plt
import numpy as np
import shipped_results
from matplotlib.ticker import LogLocator

from convexrank.plotting.style import label_text, styles


def plain_numbers(panel):
    """Write the numbers of a logarithmic axis without powers of ten."""
    panel.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    for form in (panel.yaxis.set_major_formatter, panel.yaxis.set_minor_formatter):
        form("{x:g}")


results = shipped_results.read(figures.FILE)
for name, found in results.items():
    share, degree = found["spam"] / found["nodes"], found["median out-degree"]
    print(
        f"{name}: {found['nodes']} nodes, {found['links']} links, "
        f"{found['spam']} spam ({100 * share:.1f} %); "
        f"links of a node, median: spam {degree['spam']:g}, honest {degree['honest']:g}"
    )

# %%
# Figures 6.5 and 6.8: convergence
# --------------------------------
# The change :math:`\|r_{k+1} - r_k\|_1` from uniform ranks, weak links inside the norm as (6.1) has them. The text:
# with p = q "the basic fixed point iterations are too slow", and with a constant linear damping they take several
# hundred iterations; with q/p = 1.2 around 40 suffice.

forms = {"p=q": "p = q", "p=q, damped": "p = q, damped by ½", "q/p=1.2": "q/p = 1.2"}
figure, grid = plt.subplots(3, 3, figsize=(9.4, 8.2), sharex=True, sharey=True, layout="constrained")
for line, (name, found) in zip(grid, results.items(), strict=True):
    for panel, (form, title) in zip(line, forms.items(), strict=True):
        for p, style in styles(figures.POWERS).items():
            change = np.maximum(found["changes"][f"{form}, p={p}"], 1e-16)
            panel.loglog(figures.TIMES, change, label=label_text(p), **style)
        panel.axhline(figures.ERROR, color="0.7", linewidth=1)
        panel.set_title(f"{name}: {title}", fontsize=9)
        panel.grid(alpha=0.25)
        panel.set_ylim(1e-14, 3)
    line[0].set_ylabel("change, L1 norm")
for panel in grid[-1]:
    panel.set_xlabel("iterations")
grid[0, 0].legend(fontsize="small")
plt.show()

print("Iterations to a change of 1e-6 (none: not within " + f"{figures.LIMIT})")
print(f"{'':<40}" + "".join(f"{f'p={p}':>8}" for p in figures.POWERS))
for name, found in results.items():
    for form, title in forms.items():
        counts = [found["iterations"][f"{form}, p={p}"] for p in figures.POWERS]
        print(f"{name + ', ' + title:<40}" + "".join(f"{c or 'none':>8}" for c in counts))

# %%
# Figure 6.6: iterations and spam mass as q/p grows
# -------------------------------------------------
# p = 4. The text: iterations fall from several hundred to a few tens, and "there is a best value of q at which the spam
# reduction is the highest", close to p.

colours = dict(zip(results, ("#0072b2", "#d55e00", "#009e73"), strict=True))
figure, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.9), layout="constrained")
for name, found in results.items():
    counts, mass = found["ratios"]["iterations"], found["ratios"]["mass"]
    steps = [np.nan if c is None else c for c in counts]
    left.semilogy(figures.RATIOS, steps, marker=".", color=colours[name], label=name)
    relative = np.array(mass) / (100 * found["spam"] / found["nodes"])
    right.semilogy(figures.RATIOS, relative, marker=".", color=colours[name], label=name)
    best = figures.RATIOS[int(np.argmin(mass))]
    print(
        f"{name}: iterations {counts[0] or 'none'} at q = p, {counts[3]} at 1.2, {counts[-1]} at 3;\n"
        f"    spam mass {mass[0]} %, {mass[3]} %, {mass[-1]} %; least at q/p = {best}"
    )
left.set(xlabel="q/p", ylabel="iterations to 1e-6")
right.set(xlabel="q/p", ylabel="spam mass / share of spam nodes")
right.axhline(1, color="0.7", linewidth=1)
left.legend()
for panel in (left, right):
    panel.grid(alpha=0.25)
    plain_numbers(panel)
plt.show()

# %%
# Figures 6.7 and 6.9: spam mass
# ------------------------------
# q/p = 1.2, and PageRank at p = 1. A tenth of the nodes of each kind is known. *Same* and *opposite*: the way in which
# distrust flows, with norms for the trust, too (6.7); *linear*: linear trust, the Lin-L_pq of Figure 6.9. Printed for
# the web graph: in-degree 25.28 %, PageRank 20.67 % at 20 % spam, and up to 40 % less for large p.

lines = {
    "L_pq": ("no labels", "black", "-"),
    "same": ("trust, same direction", "#56b4e9", "--"),
    "opposite": ("trust, opposite", "#0072b2", "-"),
    "linear, same": ("linear trust, same", "#e69f00", "--"),
    "linear, opposite": ("linear trust, opposite (Lin-L_pq)", "#d55e00", "-"),
}
figure, panels = plt.subplots(1, 3, figsize=(9.4, 4.6), layout="constrained")
places = np.arange(len(figures.POWERS))
for panel, (name, found) in zip(panels, results.items(), strict=True):
    for key, (label, colour, dash) in lines.items():
        panel.semilogy(places, found["mass"][key], dash, marker=".", color=colour, label=label)
    panel.axhline(found["mass"]["in-degree"], color="0.5", linestyle=":", label="in-degree")
    panel.axhline(found["mass"]["TrustRank"], color="0.7", linestyle="-.", label="TrustRank")
    panel.set_xticks(places, [str(p) for p in figures.POWERS])
    panel.set(xlabel="p", title=f"{name}\n{100 * found['spam'] / found['nodes']:.1f} % of the nodes")
    panel.grid(alpha=0.25)
    plain_numbers(panel)
    print(
        f"{name}: spam mass in %, in-degree {found['mass']['in-degree']}, TrustRank {found['mass']['TrustRank']}"
    )
    print(f"{'p':>36}" + "".join(f"{p!s:>8}" for p in figures.POWERS))
    for key, (label, _, _) in lines.items():
        print(f"{label:>36}" + "".join(f"{value:>8}" for value in found["mass"][key]))
panels[0].set_ylabel("spam mass in %")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()

# %%
# The second panel of Figure 6.7: Spearman's footrule between the ranks on honest nodes, divided by the square of their
# number. The text finds p = 4 and higher almost the same, and in-degree far from all.

figure, panels = plt.subplots(1, 3, figsize=(9.4, 4.6), sharey=True, layout="constrained")
ticks = [f"p = {p}" for p in figures.POWERS] + ["in-degree"]
for panel, (name, found) in zip(panels, results.items(), strict=True):
    distance = np.array(found["mass"]["distance"])
    image = panel.imshow(distance, cmap="viridis_r", vmin=0, vmax=0.33)
    for (i, j), value in np.ndenumerate(distance):
        panel.text(
            j, i, f"{value:.2f}", ha="center", va="center", fontsize=8, color="w" if value > 0.15 else "k"
        )
    panel.set_xticks(range(len(ticks)), ticks, rotation=90)
    panel.set_yticks(range(len(ticks)), ticks)
    panel.set_title(name, fontsize=10)
figure.colorbar(image, ax=panels, location="bottom", shrink=0.6, label="footrule / n²; random orders: 0.33")
plt.show()

# %%
# Figure 6.11: how many labels
# ----------------------------
# A node counts as spam when one number is below a threshold, the best one for the nodes without labels. Ten draws of
# labels; p = 4. The dissertation prints, in per cent:

for name, row in figures.PRINTED.items():
    print(f"{name:<18}" + "".join(f"{value:>9}" for value in row))
print("\nHere, means of ten draws:")
figure, grid = plt.subplots(2, 2, figsize=(8.8, 6.8), layout="constrained")
panels = grid.ravel()
places = np.arange(len(figures.SHARES))
shown = {"L_pq TrustRank": "#0072b2", "TrustRank": "#d55e00", "trust over both": "#009e73"}
for name, row in figures.PRINTED.items():
    panels[0].semilogy(places, row, marker=".", color=shown[name], label=name)
panels[0].axhline(20, color="0.5", linestyle=":", label="all called honest")
panels[0].set_title("printed, web graph")
for panel, (graph, found) in zip(panels[1:], results.items(), strict=True):
    for name, colour in shown.items():
        values = np.array(found["errors"][name])
        mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
        panel.errorbar(places, mean, error, marker=".", capsize=3, color=colour, label=name)
        print(f"{graph:<22}{name:<18}" + "".join(f"{value:>9.2f}" for value in mean))
    panel.axhline(100 * found["spam"] / found["nodes"], color="0.5", linestyle=":", label="all called honest")
    panel.set_title(graph)
    panel.set_ylim(0, None)
for panel in panels:
    panel.set_xticks(places, [f"{100 * share:g}" for share in figures.SHARES])
    panel.set(xlabel="labels in %", ylabel="error in %")
    panel.grid(alpha=0.25)
plain_numbers(panels[0])
figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=4)
plt.show()

# %%
# Calling every page honest has an error of 20 % on the web graph, so no best threshold can have an error of 65 %. The
# printed rows for TrustRank at 2.5 % of the labels and below must come from another rule than the rule in the text.
