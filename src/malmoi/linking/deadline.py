"""A time to be done by: long work asks between its steps whether it has come."""

import math
import time
from dataclasses import dataclass

from ..errors import OptionError

now = time.monotonic


@dataclass(frozen=True)
class Deadline:
    """Two moments of one clock; work that has further work behind it asks for the half."""

    start: float
    end: float

    @classmethod
    def within(cls, seconds: float | None) -> "Deadline":
        """Give the deadline so many seconds from now; None is none.

        >>> Deadline.within(None).passed()
        False
        """
        if seconds is not None and not 0 < seconds < math.inf:
            raise OptionError(f"within is {seconds}; expected seconds above 0. Correct it.")
        start = now()
        return cls(start, math.inf if seconds is None else start + seconds)

    def half(self) -> "Deadline":
        """Give the deadline for the first of two parts."""
        return Deadline(self.start, (self.start + self.end) / 2)

    def passed(self) -> bool:
        """Tell whether it is time to stop."""
        return now() >= self.end


NEVER = Deadline(0.0, math.inf)
