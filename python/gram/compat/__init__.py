"""Functions with the names and rules of other packages, so that one import can be switched.

gram.compat.scipy    cdist, pdist                            of scipy.spatial.distance
gram.compat.torch    cdist                                   of PyTorch
gram.compat.sklearn  pairwise_distances, pairwise_kernels    of sklearn.metrics
gram.compat.kermac   the whole of kermac, on the CPU too

Each loads the package whose rules it follows.  What libgram does not compute is passed on to that
package: other metrics, weights, sparse matrices.
"""
