"""peers/without.py - programs of bench/programs.py as their authors write them, without libgram"""

NAME, PACKAGES, DEVICES = "without libgram", ["gpytorch", "scikit-learn", "jax", "torch"], ("cpu",)


def program(q):
    return q.operation.call(q, False)


CALLS = {"program": program}
