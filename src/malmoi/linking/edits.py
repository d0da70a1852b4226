"""Edit distance, letter by letter, by bit-parallel arithmetic (Hyyrö 2003)."""


def distance(a: str, b: str) -> int:
    """Count the letters to change, add or take away between two texts.

    >>> distance("당뇨", "당노"), distance("", "abc"), distance("pneumonia", "pnuemonia")
    (1, 3, 2)
    """
    if not a or not b:
        return len(a) + len(b)
    places: dict[str, int] = {}
    for i, letter in enumerate(a):
        places[letter] = places.get(letter, 0) | 1 << i
    mask, last = (1 << len(a)) - 1, 1 << len(a) - 1
    plus, minus, found = mask, 0, len(a)
    for letter in b:
        same = places.get(letter, 0)
        zero = (((same & plus) + plus) ^ plus) | same | minus
        right_plus = minus | (~(zero | plus) & mask)
        right_minus = plus & zero
        found += bool(right_plus & last) - bool(right_minus & last)
        right_plus = right_plus << 1 | 1
        plus = ((right_minus << 1) | ~(zero | right_plus)) & mask
        minus = right_plus & zero & mask
    return found


def likeness(a: str, b: str) -> float:
    """Give 1 for equal texts, less for each letter that differs, 0 for nothing in common.

    >>> likeness("당뇨병", "당뇨병"), likeness("ab", "cd"), likeness("", "")
    (1.0, 0.0, 1.0)
    """
    longest = max(len(a), len(b))
    return 1 - distance(a, b) / longest if longest else 1.0
