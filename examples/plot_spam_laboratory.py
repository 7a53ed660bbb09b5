r"""
A spam laboratory: which farm fools which rank
==============================================

Farms of several kinds are added to a web of real pages, one at a time, and the page shows the place of the farm's
target in every rank. The ranks have no information on which pages are new. The pieces, ``inject_farm`` and the
measures, are public; ``examples/spam_laboratory.py`` lists the farms and ranks.

The web is cs.stanford.edu, 9 914 pages, where its file is beside the project; otherwise a random graph.
"""

import matplotlib.pyplot as plt
import numpy as np
import spam_laboratory as laboratory
from matplotlib.colors import LogNorm

import convexrank as cr
from convexrank import metrics

name, web = laboratory.web()
print(f"{name}: {web.n} pages, {web.m} links, {len(web.dangling)} pages without links")

# %%
# One farm at a time
# ------------------
# Three pages of the web were brought to link to the target, as by comments that anyone may write; "two pages alone"
# has no such link. TrustRank starts from a hundred pages drawn among those that lead to the most pages.
ranks = laboratory.unlabelled(laboratory.good_pages(web))
places = laboratory.positions(web, ranks)
print(f"{'':16s}" + "".join(f"{rank:>14s}" for rank in ranks))
for farm, row in zip(laboratory.FARMS, places, strict=True):
    print(f"{farm:16s}" + "".join(f"{place:14d}" for place in row))

figure, panel = plt.subplots(figsize=(8.4, 4.6), layout="constrained")
image = panel.imshow(places, norm=LogNorm(1, web.n), cmap="magma", aspect="auto")
for (i, j), place in np.ndenumerate(places):
    panel.text(j, i, str(place), ha="center", va="center", color="white" if place < web.n**0.7 else "black")
panel.set_xticks(range(len(ranks)), [rank.replace(", ", ",\n") for rank in ranks])
panel.set_yticks(range(len(laboratory.FARMS)), list(laboratory.FARMS))
panel.set_title("Place of the farm's target: the darker, the more the rank was fooled")
figure.colorbar(image, ax=panel, label="place from the top")
plt.show()

# %%
# No rank but TrustRank resists all of them. In a closed farm where every page links to d others and is linked to by
# d, a round multiplies the scores by
#
# .. math:: \Bigl(\sum_{j=1}^{d} d^{-p}\Bigr)^{1/p} = d^{\,1/p-1}
#
# (θ and α aside). For p = 1 the factor is 1 for every d, and only the number of pages in a farm counts for PageRank.
# For p > 1 the factor is small when d is large, and 1 when d is 1; a star of h helpers counts as d = √h. Honest pages
# obey the same law. So the norm lowers large stars and cliques, and raises rings, alliances and pairs. A floor on the
# out-degree treats all farms alike up to the floor; the best farm against it is a clique of one page more, as the
# figure shows. The floor makes farms more expensive, but guarantees nothing. TrustRank depends on the links that lead
# from good pages; a farm gains by the number of such links that it obtains.

# %%
# The gain by the size of the farm
# --------------------------------
sizes = [0, 1, 2, 4, 10, 20, 50, 100, 200]
target = int(np.argsort(-cr.pagerank(web), kind="stable")[web.n // 2])
shown = {name: ranks[name] for name in ("PageRank", "L₂", "L₄", "L₄, floor 10")}
colors = dict(zip(shown, ("0.35", "#56b4e9", "#0072b2", "#d55e00"), strict=True))

figure, panels = plt.subplots(1, 3, figsize=(10.4, 3.8), sharey=True, layout="constrained")
for panel, kind in zip(panels, ("star", "ring", "clique"), strict=True):
    for rank, of in shown.items():
        found = cr.graphs.farm_gain(web, of, sizes, kind, target=target)
        panel.loglog(np.array(sizes[1:]), found.gain[1:], marker="o", ms=3, color=colors[rank], label=rank)
        print(
            f"{kind:7s} {rank:13s} gain with 10 helpers {found.gain[4]:8.2f}, with 200 {found.gain[-1]:8.2f}"
        )
    panel.set(title=kind, xlabel="helpers")
    panel.axhline(1.0, color="0.8", linewidth=1)
panels[0].set_ylabel("share of the target, over that without farm")
panels[0].legend(fontsize="small")
plt.show()

# %%
# Many farms, and some labels
# ---------------------------
# Twelve farms of all kinds. A tenth of the honest pages and a tenth of the spam are known, as in the source: Trust
# flows from the known honest pages along the links, distrust from the known spam against the links, and a base rank is
# scaled by the share of trust. The distance is Spearman's footrule to PageRank on the honest pages, 1 for a reversed
# list.
spammed, spam = laboratory.spammed(web)
compared = {name: ranks[name] for name in ("PageRank", "L₄", "L₄, floor 10")} | laboratory.labelled(spam)
print(f"{spam.sum()} spam pages of {spammed.n}")
plain = cr.pagerank(spammed)
styles = ["0.35", "#0072b2", "#d55e00", "#009e73", "0.6", "#56b4e9", "#e69f00"]

figure, panel = plt.subplots(figsize=(7.6, 4.4), layout="constrained")
for (rank, of), color in zip(compared.items(), styles, strict=True):
    scores = of(spammed)
    met = metrics.spam_met(scores, spam)
    panel.loglog(np.arange(1, spammed.n + 1), np.maximum(met, 0.3), color=color, label=rank)
    print(
        f"{rank:30s} mass {metrics.spam_mass(scores, spam):.4f}, among the first 200: {met[199]:5.1f}, "
        f"distance to PageRank {metrics.order_distance(plain, scores, ~spam):.3f}"
    )
panel.plot([1, spammed.n], [spam.mean(), spam.sum()], color="0.8", linestyle="--", label="random order")
panel.set(xlabel="pages down the list", ylabel="spam met (0 shown as 0.3)", ylim=(0.25, None))
panel.legend(fontsize="small")
plt.show()
