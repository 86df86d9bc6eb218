"""distance_search.py - the nearest neighbours of queries under several distances

The matrix of distances is made in blocks of rows: memory stays small, whatever the number of
points.
"""

import gram
import numpy as np


def nearest(queries, points, count, p, rows=256):
    """The indices and distances of the count nearest points of every query."""
    index = np.empty((len(queries), count), np.int64)
    distance = np.empty((len(queries), count), queries.dtype)
    block = np.empty((min(rows, len(queries)), len(points)), queries.dtype)
    for begin in range(0, len(queries), rows):
        part = queries[begin : begin + rows]
        d = gram.cdist(part, points, p, root=False, out=block[: len(part)])
        found = np.argpartition(d, count, axis=1)[:, :count]
        order = np.take_along_axis(d, found, 1).argsort(1)
        index[begin : begin + rows] = np.take_along_axis(found, order, 1)
        near = np.take_along_axis(d, index[begin : begin + rows], 1)
        distance[begin : begin + rows] = near if p in (0, np.inf) else near ** (1 / p)
    return index, distance


def main():
    random = np.random.default_rng(0)
    points = random.standard_normal((5000, 32)).astype(np.float32)
    noise = 0.05 * random.standard_normal((600, 32)).astype(np.float32)
    queries = points[:600] + noise
    for p in (0.5, 1, 2, np.inf):
        index, distance = nearest(queries, points, 5, p)
        found = np.mean(index[:, 0] == np.arange(600))
        print(f"p = {p:3}: {found:.1%} find where they came from, at {distance[:, 0].mean():.3f}")
        assert found > 0.99 and (np.diff(distance) >= 0).all()


if __name__ == "__main__":
    main()
