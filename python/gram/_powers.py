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


_MOST = 64  # numerator and denominator of what counts as a fraction, as gram_matrix_power has it


def exponent(name, numerator, denominator, power, floor):
    """(numerator, denominator, power) of a call: power is None where the fraction is computed as
    such, with all its derivatives, else a number for the functions of eigenvalues below."""
    if power is not None:
        if power == 0 or (numerator, denominator) != (-1, 4):
            raise ValueError(
                f"{name}: power is {power!r}, expected a number that is not 0, without numerator "
                "and denominator"
            )
        power = float(power)
        numerator, denominator = 0, 0
        for q in range(1, _MOST + 1):
            k = round(power * q) if abs(power) <= _MOST else 0
            if k != 0 and abs(k) <= _MOST and k / q == power:
                numerator, denominator, power = k, q, None
                break
    if floor > 0 and power is None and numerator != 0 and denominator > 0:
        power = numerator / denominator
    return numerator, denominator, power


def _real_difference(xp, a, b, p):
    """(a^p - b^p) / (a - b) of numbers that are not negative, without cancellation: with the larger
    one h and d = |a - b| / h it is h^(p-1) (1 - (1 - d)^p) / d, and so from the smaller one where p
    is negative."""
    low, high = xp.minimum(a, b), xp.maximum(a, b)
    base, sign = (low, 1) if p < 0 else (high, -1)
    gap = (high - low) / xp.where(base == 0, 1, base)
    tie = gap == 0
    gap = xp.where(tie, 1, gap)
    ratio = sign * xp.expm1(p * xp.log1p(xp.where(tie, 0, sign * gap))) / gap
    return base ** (p - 1) * xp.where(tie, p, ratio)


def real_slopes(xp, values, power, ridge, floor):
    """Of f(l) = max(max(l, 0) + ridge, t)^power with t = floor (max(l_max, 0) + ridge), at
    ascending eigenvalues: (divided differences with t held, of every f its derivative by t, the
    share of every eigenvalue in the change of t).  Without a floor l + ridge is what counts."""
    if floor == 0:
        kept = xp.maximum(values + ridge, 0 * values)
        slopes = _real_difference(xp, kept[..., :, None], kept[..., None, :], power)
        return slopes, 0 * values, 0 * values
    top = values[..., -1:]
    least = floor * (xp.maximum(top, 0 * top) + ridge)
    kept = xp.maximum(values, 0 * values) + ridge
    low = kept < least
    flat = low | (values < 0)
    kept = xp.where(low, least, kept)
    slopes = _real_difference(xp, kept[..., :, None], kept[..., None, :], power)
    gap = values[..., :, None] - values[..., None, :]
    step = (kept[..., :, None] - kept[..., None, :]) / xp.where(gap == 0, 1, gap)
    step = xp.where(flat[..., :, None] & flat[..., None, :], 0 * step, step)
    step = xp.where(flat[..., :, None] | flat[..., None, :], step, 1 + 0 * step)
    by_least = xp.where(low, power * kept ** (power - 1), 0 * kept)
    largest = xp.where((values == top) & (top > 0), 1 + 0 * values, 0 * values)
    count = largest.sum(-1)[..., None]
    return slopes * step, by_least, floor * largest / xp.where(count == 0, 1, count)
