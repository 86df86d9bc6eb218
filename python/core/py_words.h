/*
 * py_words.h - the names of all arguments, each once
 *
 * PY_WORDS(X) lists X(name); py_core.h makes an enum of them, py_core.c the interned strings.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_WORDS_H
#define PY_WORDS_H

/* clang-format off */
#define PY_WORDS(X) \
  X(a) X(accumulate) X(activations) X(alpha) X(arguments) X(b) X(background) X(backward) \
  X(bandwidth) X(beta) X(bias) X(bits) X(block) X(bound) X(c) X(centres) X(checkpoint) \
  X(checkpoint_iterations) X(checkpoint_seconds) X(chips) X(clip) X(coef0) X(coefficients) \
  X(column_offset) X(communicator) X(condensed) X(condition) X(count) X(counts) X(d) X(damping) \
  X(degree) X(denominator) X(device) X(diagonal) X(dilation) X(driver) X(epsilon) X(error) \
  X(exclude_self) X(exponent) X(expression) X(factor) X(factored) X(factors) X(features) X(first) \
  X(floor) X(found) X(gamma) X(grad) X(gradients) X(grid) X(groups) X(held_out_rmse) X(info) \
  X(inner) X(intercept) X(iterations) X(jitter) X(jittered) X(k) X(keep) X(kernel) X(kernel_size) \
  X(kind) X(l) X(left) X(lengths) X(like) X(log_weights) X(lower) X(memory) X(method) X(metric) \
  X(name) X(normalized) X(numerator) X(of) X(offset) X(options) X(out) X(outer_power) X(output) \
  X(p) X(packed) X(padding) X(padding_row) X(parameter) X(parameters) X(pattern) X(pivots) \
  X(points) X(power) X(precision) X(preconditioner) X(prior) X(probes) X(products) X(radius) \
  X(range) X(rank) X(rcond) X(refine) X(refinings) X(regularization) X(report) X(resume) X(ridge) \
  X(ridge_relative) X(ridges) X(right) X(root) X(row_offset) X(row_weights) X(rows) X(scale) \
  X(seed) X(select) X(setting) X(shared_bytes) X(shift) X(side) X(source) X(split) X(spread) \
  X(steps) X(stream) X(stride) X(sum) X(time_limit) X(tolerance) X(transpose) X(v) X(vectors) \
  X(warm_start) X(weights) X(what) X(wrt) X(x) X(y) X(z)
/* clang-format on */

enum py_word {
#define PY_WORD(name) PY_##name,
    PY_WORDS(PY_WORD)
#undef PY_WORD
    PY_WORD_COUNT
};

#endif
