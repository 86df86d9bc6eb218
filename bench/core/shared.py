"""core/shared.py - what several peers do in the same way, whatever their arrays"""


def chain(x, factors):
    """x times a Kronecker product: strided products factor by factor, without a transposition."""
    y, after = x, 1
    for f in reversed(factors):
        if after == 1:
            y = y.reshape(-1, f.shape[0]) @ f
        else:
            y = f.T @ y.reshape(-1, f.shape[0], after)
        after *= f.shape[1]
    return y.reshape(x.shape[0], -1)


def shampoo_steps(q, optimizer, roots):
    """Steps of a Shampoo: with all roots, with none, and a mean of ten of which one takes them.

    optimizer(q, parameters, root, every) makes one that takes its roots every so many steps.
    """
    found = {f"{root}, every step": q.steps(optimizer(q, q.leaves(), root, 1)) for root in roots}
    found["no roots"] = q.steps(optimizer(q, q.leaves(), "coupled Newton", 10**6))
    found |= {f"{root}, of 10": q.steps(optimizer(q, q.leaves(), root, 10), 10) for root in roots}
    return found


def shampoo_directions(q, optimizer, roots):
    return {root: q.moved(lambda ps, r=root: optimizer(q, ps, r, 1).step) for root in roots}
