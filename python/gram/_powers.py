"""Powers of numbers, whatever the library of the arrays."""


def difference(a, b, n):
    """(a^n - b^n) / (a - b), without the division."""
    if n < 0:
        return -difference(a, b, -n) / (a * b) ** -n
    return sum(a**i * b ** (n - 1 - i) for i in range(n))


def second_difference(a, b, c, n):
    """The divided difference of t^n at three points: a sum of products of their powers."""
    if n < 0:
        return _homogeneous(1 / a, 1 / b, 1 / c, -n - 1) / (a * b * c)
    return _homogeneous(a, b, c, n - 2)


def _homogeneous(a, b, c, n):
    """The sum of all products of n factors a, b and c."""
    total = 0 * (a + b + c)
    for k in range(n + 1):
        total = total * a + difference(b, c, k + 1)
    return total


def second_slopes(a, b, c, numerator, denominator):
    """The second divided difference of t^(numerator / denominator), at a, b and c to the power of
    denominator."""
    slope = difference(b, c, numerator) / difference(b, c, denominator)
    upper = second_difference(a, b, c, numerator)
    upper = upper - slope * second_difference(a, b, c, denominator)
    return upper / (difference(a, c, denominator) * difference(a, b, denominator))
