"""Old names work, warn where they are called, and say what to write."""

from __future__ import annotations

import pytest

from convexrank.data.messages import renamed


class Ruler:
    def width(self, x, *, twice=False):
        """Return a width."""
        return 2 * x if twice else x

    breadth = renamed(width, "breadth", "0.3")


def test_an_old_method_does_the_same_and_warns():
    with pytest.warns(
        FutureWarning, match=r"^breadth is now width, and goes in version 0\.3; write width\.$"
    ) as caught:
        assert Ruler().breadth(3, twice=True) == 6
    assert caught[0].filename == __file__, "the warning points at the caller"
    assert len(caught) == 1
    assert Ruler.breadth.__name__ == "breadth"
    assert Ruler.breadth.__qualname__ == "Ruler.breadth"
    assert "width" in Ruler.breadth.__doc__
    assert Ruler().width(3) == 3


def test_errors_pass_through():
    with pytest.warns(FutureWarning), pytest.raises(TypeError):
        Ruler().breadth()
