r"""
How far it goes
===============

The tables of :doc:`/large_data` as one figure: how long solves took, against all bytes that they read, beside the
model of time; and what the model expects of the largest public graphs. ``make bench ARGS="scale --write
docs/scale_results.inc"`` measures the numbers again.
"""

import matplotlib.pyplot as plt
from scale_tables import RESULTS, amount, seconds, table

text = RESULTS.read_text(encoding="utf-8")
measured, public = table(text, "Measured points"), table(text, "Public graphs, estimated")
for what, where, _, size, passes, a_pass, _, time, model, _ in measured:
    print(f"{what:36} {where:10} {size:16} {passes:>4} passes of {a_pass:8} {time:>8}, model {model}")

# %%
# Points lie where they were measured, rings where the model has them. A bar is an estimate: at its lower end reading
# and arithmetic overlap, and the nodes come in the order of a crawl; at its upper end neither holds.

colours = {"memory": "#000000", "pieces": "#0072b2", "processes": "#009e73", "disk": "#d55e00"}
words = {
    "memory": "in memory",
    "pieces": "rows in pieces",
    "processes": "rows over processes",
    "disk": "graphs on disk",
}
figure, panel = plt.subplots(figsize=(8.0, 4.6), layout="constrained")
for _, where, _, _, passes, a_pass, _, time, model, _ in measured:
    total = float(passes) * amount(a_pass)
    panel.plot([total, total], [seconds(time), seconds(model)], color=colours[where], linewidth=1)
    panel.plot(total, seconds(model), "o", color=colours[where], markerfacecolor="white", label="model")
    panel.plot(total, seconds(time), "o", color=colours[where], label=words[where])
for name, _, _, size, _, sweeps, low, high in public:
    total = float(sweeps) * amount(size)
    panel.plot(
        [total, total],
        [seconds(low), seconds(high)],
        color="#cc79a7",
        linewidth=5,
        alpha=0.7,
        label="estimate",
    )
    panel.annotate(name, (total, seconds(high)), (0, 4), textcoords="offset points", ha="center", fontsize=8)
handles = dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
panel.legend(handles.values(), handles.keys(), loc="upper left")
ticks = {1.0: "1 s", 60.0: "1 min", 3600.0: "1 h", 86400.0: "1 day", 604800.0: "1 week"}
panel.set(xscale="log", yscale="log", xlabel="bytes read in all passes", ylabel="time")
panel.set_yticks(list(ticks), list(ticks.values()))
panel.set_xticks([1e8, 1e9, 1e10, 1e11, 1e12, 1e13], ["100 MB", "1 GB", "10 GB", "100 GB", "1 TB", "10 TB"])
panel.minorticks_off()
panel.margins(0.12)
panel.grid(alpha=0.25)
plt.show()
