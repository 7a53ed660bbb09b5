r"""
Projections by sorting and pooling
==================================

What the three projections do to a sequence, and what their derivatives are.
"""

# %%
# One sequence, several bounds on its increments
# ----------------------------------------------
# In isotonic regression no step falls. With bounds on both sides no step jumps, either; a bound on the entries cuts
# the fit off.
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from convexrank.projections import bounded_increments, isotonic, permutahedron

rng = np.random.default_rng(0)
place = np.linspace(-4.0, 4.0, 60)
truth = np.tanh(1.2 * place)
z = truth + 0.35 * rng.standard_normal(60)
fits = {
    "rising": isotonic(z),
    "rising, no step above 0.1": bounded_increments(z, 0.0, 0.1),
    "the same, within [−0.8, 0.8]": bounded_increments(z, 0.0, 0.1, bounds=(-0.8, 0.8)),
}
for name, fit in fits.items():
    error = np.sqrt(np.mean((fit - truth) ** 2))
    print(f"{name:30s} largest step {np.diff(fit).max():.2f}, distance from the truth {error:.3f}")

# %%
# Soft ranks
# ----------
# The projection of scores/ε on the permutahedron of (1, …, n): ranks that follow the scores smoothly.
scores = np.array([0.1, 0.35, 0.5, 1.3, 1.4])
softness = np.geomspace(0.02, 5.0, 200)
ranks = np.array([permutahedron(scores / epsilon, np.arange(1.0, 6.0)) for epsilon in softness])

# %%
# The derivative
# --------------
# A block moves as a whole: each row of the Jacobian is a mean over a block, or zero where a bound holds the
# block.
jacobians = [
    jax.jacobian(lambda z, limits=limits: bounded_increments(z, 0.0, 0.1, bounds=limits))(jnp.asarray(z))
    for limits in ((None, None), (-0.8, 0.8))
]
blocks = np.linalg.matrix_rank(np.asarray(jacobians[0]), tol=1e-4)
print(
    f"{blocks} blocks; every row adds up to 1: {bool(np.allclose(jacobians[0].sum(axis=1), 1.0, atol=1e-5))}"
)

# %%
# The figure
# ----------
figure, panels = plt.subplots(1, 3, figsize=(12.5, 3.9), layout="constrained", width_ratios=(1.5, 1.1, 1.0))
panels[0].plot(place, z, ".", color="0.55", label="values")
styles = {"color": "#0072b2"}, {"color": "#d55e00"}, {"color": "black", "linestyle": "--"}
for (name, fit), style in zip(fits.items(), styles, strict=True):
    panels[0].plot(place, fit, linewidth=1.4, label=name, **style)
panels[0].set(xlabel="position", title="bounded increments")
panels[0].legend(fontsize="small", loc="upper left")
panels[1].semilogx(softness, ranks, color="#0072b2", linewidth=1.4)
for score, rank in zip(scores, ranks[0], strict=True):
    panels[1].annotate(
        f"score {score:g}", (softness[0], rank), (2, 3), textcoords="offset points", fontsize="small"
    )
panels[1].set(xlabel="softness ε", ylabel="soft rank", title="permutahedron", ylim=(0.8, 5.5))
for panel in panels[:2]:
    panel.grid(alpha=0.25)
picture = panels[2].imshow(jacobians[1], cmap="Greys", vmin=0.0, vmax=0.3)
figure.colorbar(picture, ax=panels[2], shrink=0.8, extend="max")
panels[2].set(xlabel="entry of z", ylabel="entry of the fit", title="derivative, within [−0.8, 0.8]")
plt.show()
