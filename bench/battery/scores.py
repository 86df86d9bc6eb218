"""battery/scores.py - how good predictions are

error is the share of wrong classes or, of a regression, the root of the mean squared error over
the deviation of the target, which is 1 for the mean as the prediction.  log_loss is the mean of
-log p of the true class.  calibration is the expected calibration error of the predicted class:
over 15 bins of its probability, the mean difference between probability and share of hits.
"""

import numpy as np

BINS = 15
LEAST = 1e-15  # a probability of zero would be an infinite loss


def calibration_error(sure, right):
    """sure: the probabilities of the predicted classes; right: whether they are the true ones."""
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    count, total, hits = (
        np.bincount(place, weights, BINS) for weights in (None, sure, right.astype(float))
    )
    return float(np.abs(total - hits).sum() / count.sum())


def score(y, predicted, classes):
    """predicted: numbers, or probabilities (rows, classes)."""
    predicted = np.asarray(predicted, np.float64)
    shape = (len(y), classes) if classes else (len(y),)
    if predicted.shape != shape or not np.isfinite(predicted).all():
        raise ValueError(f"predictions of shape {predicted.shape}, expected finite {shape}")
    if not classes:
        return {"error": float(np.sqrt(np.mean((predicted - y) ** 2)) / y.std())}
    predicted = predicted / predicted.sum(axis=1, keepdims=True)
    best = predicted.argmax(axis=1)
    of_truth = predicted[np.arange(len(y)), y]
    return {
        "error": float(np.mean(best != y)),
        "log_loss": float(-np.log(np.maximum(of_truth, LEAST)).mean()),
        "calibration": calibration_error(predicted.max(axis=1), best == y),
    }
