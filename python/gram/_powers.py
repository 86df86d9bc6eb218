"""Powers of numbers, whatever the library of the arrays."""


def difference(a, b, n):
    """(a^n - b^n) / (a - b), without the division."""
    if n < 0:
        return -difference(a, b, -n) / (a * b) ** -n
    return sum(a**i * b ** (n - 1 - i) for i in range(n))
