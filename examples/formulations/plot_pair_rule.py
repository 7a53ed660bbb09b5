r"""
PairRule: dice that beat one another in a circle
================================================

Efron's dice: A beats B, B beats C, C beats D and D beats A, each with probability 2/3. A row is a die, its label the
number that it shows. Whatever scores the four dice get, one of the four comparisons is wrong. A rule on pairs has all
four.
"""

# %%
# Scores and a rule
# -----------------
# The rule has one weight for each pair of different dice: the feature is 1 where the first row shows the first of
# the two dice and the second row the second, −1 where it is the other way round.
from itertools import combinations, product

import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank import inference, metrics

DICE = {"A": [4, 4, 4, 4, 0, 0], "B": [3] * 6, "C": [6, 6, 2, 2, 2, 2], "D": [5, 5, 5, 1, 1, 1]}
SIDES = np.array(list(DICE.values()), dtype=float)
COUPLES = list(combinations(range(4), 2))
rng = np.random.default_rng(0)


def rolled(n):
    """Draw dice and what they show."""
    dice = rng.integers(4, size=n)
    return dice, SIDES[dice, rng.integers(6, size=n)]


def features(dice):
    """Return the features of the pairs i < j."""
    first, second = (dice[rows] for rows in np.triu_indices(len(dice), 1))
    one_way = [1.0 * ((first == a) & (second == b)) - ((first == b) & (second == a)) for a, b in COUPLES]
    return np.column_stack(one_way)


dice, y = rolled(300)
cost = cr.losses.Logistic(base=2)
rule = cr.problems.PairRule(features(dice), y, cost=cost, antisymmetric=True, l2=1e-4)
scores = cr.problems.ConvexRisk(np.eye(4)[dice], y, cost, l2=1e-4)
of_rule, of_scores = rule.solve(), scores.solve()
print(f"convex risk of scores {of_scores.value:.4f}, of the rule {of_rule.value:.4f}")
print("gaps:", f"{max(of_rule.gap, of_scores.gap):.0e}")

# %%
# The figure
# ----------
# Left: the rule. Right: the ranking risk on 1000 new rolls, with asymptotic intervals of 95 %; and the least risk that
# any scores, and any rule, have on these dice, by enumeration.
table = np.zeros((4, 4))
for (a, b), value in zip(COUPLES, of_rule.x, strict=True):
    table[a, b], table[b, a] = value, -value


def expected(r):
    """Return the expected risk of a rule, over all sides of two dice."""
    lost = [0.5 * (r[a, b] == 0) * (s != t) + ((s - t) * r[a, b] < 0) for a, b, s, t in sides_of_two]
    return float(np.mean(lost))


sides_of_two = [(a, b, s, t) for a, b in product(range(4), repeat=2) for s, t in product(SIDES[a], SIDES[b])]
orders = [np.subtract.outer(levels, levels) for levels in product(range(4), repeat=4)]
best_scores = min(expected(r) for r in orders)
best_rule = expected(np.sign(np.array([[np.sign(a[:, None] - b).sum() for b in SIDES] for a in SIDES])))
new, shown = rolled(1000)
figure, panels = plt.subplots(1, 2, figsize=(9.8, 4.0), layout="constrained")
limit = np.abs(table).max()
image = panels[0].imshow(table, cmap="RdBu", vmin=-limit, vmax=limit)
for a, b in product(range(4), repeat=2):
    ink = "w" if abs(table[a, b]) > 0.6 * limit else "k"
    panels[0].text(b, a, f"{table[a, b]:.2f}", ha="center", va="center", color=ink)
panels[0].set(xticks=range(4), yticks=range(4), xticklabels=DICE, yticklabels=DICE)
panels[0].set(xlabel="second die", ylabel="first die", title="the rule: above 0 the first is ranked higher")
given = {"scores": np.asarray(of_scores.x)[new], "rule on pairs": table[np.ix_(new, new)]}
for place, (name, ranker) in enumerate(given.items()):
    found = inference.ranking_risk_interval(shown, ranker, method="asymptotic")
    print(f"{name:<14} {found.estimate:.3f} in [{found.lower:.3f}, {found.upper:.3f}]")
    ends = [[found.estimate - found.lower], [found.upper - found.estimate]]
    panels[1].errorbar([place], [found.estimate], ends, fmt="o", capsize=5, color="#0072b2")
for value, name, color in ((best_scores, "best scores", "#d55e00"), (best_rule, "best rule", "#009e73")):
    panels[1].axhline(value, color=color, linestyle="--", label=f"{name}: {value:.3f}")
panels[1].set(xticks=[0, 1], xticklabels=given, xlim=(-0.6, 1.6), title="ranking risk on 1000 new rolls")
panels[1].grid(alpha=0.25)
panels[1].legend()
plt.show()

# %%
# Three dice in order
# -------------------
# The loss of three rows is 1 unless all three are in the right order: the m-ary risk, here of the scores. An order of
# three by a rule that runs in a circle is not defined, so it is asked of scores.
print(metrics.m_ary_risk(shown, given["scores"], rounds=100))
