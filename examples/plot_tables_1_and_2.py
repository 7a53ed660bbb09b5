r"""
Tables 1 and 2 of the 2009 paper
================================

The P-Norm Push paper (C. Rudin, JMLR 10, 2009) shows in sections 3.1 and 3.2, on lists of 8 and 14 examples with given
scores f, that

.. math:: R_{p,\ell}(f) = \sum_{k=1}^K \Bigl( \sum_{i=1}^I \ell(f_i - f_k) \Bigr)^p

weights the top of the list, the more so the larger p is. Here the package computes every number of the two tables, and
compares it with the printed number. The printed numbers, and the code behind this page, are in
``examples/tables_1_and_2.py``; ``tests/test_reproductions.py`` states cell by cell what matches.

Where a printed number reads ``2.73e?``, its power of ten was lost in the text from which it was taken: its digits are
compared, not its size. A star marks a cell with different digits.
"""

import matplotlib.pyplot as plt
import numpy as np
import tables_1_and_2 as tables

# %%
# Table 1: one swap at the bottom, one at the top
# -----------------------------------------------
# p = 4. Each cell reads *printed | computed*. The 0-1 column follows from the order alone. The other two columns come
# out, to the last digit, when the scores 1, …, 8 are divided by 2, which the paper does not say.

print(tables.show(tables.table_1()))

# %%
# With the scores as they are printed, only the 0-1 column comes out:

print(tables.show(tables.table_1(scale=1.0)))

# %%
# Table 2: which of two functions is preferred
# --------------------------------------------
# f1 is better at the top of the list, f2 = −f1 has the larger AUC. Again the scores, here 14/14, 13/14, …, 1/14,
# have to be divided by 2.

cells = tables.table_2()
for loss in tables.LOSSES:
    print(tables.show([cell for cell in cells if cell.column.startswith(loss)]), end="\n\n")

# %%
# What cannot be matched
# ----------------------

for cell in cells:
    if not cell.matches:
        print(
            f"{cell.row}, {cell.column}: printed {cell.printed}, "
            f"computed {cell.computed:.6g}, so {cell.rounded}"
        )
print(f"{sum(cell.matches for cell in cells)} of {len(cells)} cells match in every printed digit.")

# %%
# The cell that does not match is off by one in its last digit. All other cells are rounded, and no scale makes this
# cell match without losing others (below); it may be a slip of the paper or of the text extraction.
#
# How sure is the factor 2?
# -------------------------
# The digits determine the scale. The range of scales at which as many cells match as at 2:

scales = np.round(np.arange(1.9998, 2.0002, 0.00001), 5)
matched = np.array([sum(cell.matches for cell in tables.table_2(scale)) for scale in scales])
best = scales[matched == matched.max()]
print(f"{matched.max()} cells match for scales from {best.min():.5f} to {best.max():.5f}")
print(f"at scale 1: {sum(c.matches for c in tables.table_2(1.0))} cells, the 0-1 columns")
print(f"with logarithms to base 2: {sum(c.matches for c in tables.table_2(base=2.0))} cells, no logistic one")

# %%
# So the logistic loss has the natural logarithm, as a note in section 3.1 says, and both tables have the factor 1/2.
# The factor matters for a repetition of the experiment: without it the preference changes at other values of p.
#
# Which function is preferred
# ---------------------------

computed, unscaled = tables.preferences(cells), tables.preferences(tables.table_2(scale=1.0))
for loss in tables.LOSSES:
    printed = tables.TABLE_2_PREFERRED[loss].split()
    turn = 1 + computed[loss].index("f1")
    verdict = "as printed" if printed == computed[loss] else f"printed: {printed}"
    print(f"{loss:<12} f2 for p < {turn}, f1 from p = {turn} on: {verdict}", end="")
    print(f" (scale 1: from p = {1 + unscaled[loss].index('f1')} on)")

# %%
# The left panel shows the change: f1 is preferred where the ratio is below 1. The right panel shows the cells that
# match as the scale moves away from 2.

value = {(cell.row, cell.column): cell for cell in cells}
powers = list(tables.POWERS)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for loss, colour in zip(tables.LOSSES, ("tab:blue", "tab:orange", "tab:green"), strict=True):
    pairs = [[value[f"p = {p}", f"{loss} {name}"] for name in ("f1", "f2")] for p in powers]
    left.plot(powers, [first.computed / second.computed for first, second in pairs], color=colour, label=loss)
    # both numbers of a row have the same power of ten, so the ratio of the printed digits is the ratio
    digits = [[float(cell.printed.removesuffix("e?")) for cell in pair] for pair in pairs]
    left.plot(powers, [first / second for first, second in digits], "o", color=colour, mfc="none")
left.axhline(1, color="0.5", linewidth=0.8)
left.set(xlabel="p", ylabel="R(f1) / R(f2)", ylim=(0.7, 1.09), xticks=powers)
left.set_title("lines: computed; circles: printed")
left.legend()

near_two = np.round(np.linspace(1.97, 2.03, 121), 4)
right.step(near_two, [sum(cell.matches for cell in tables.table_2(scale)) for scale in near_two], where="mid")
right.set(
    xlabel="scores divided by", ylabel="cells of Table 2 that match, of 60", ylim=(0, 62), title="scale"
)
right.grid(alpha=0.25)
plt.show()
