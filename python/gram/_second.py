"""The second derivatives of kernels, as expressions of the library.

w of a kernel k(s), s the distance, l the bandwidth, is dk/ds s^(1 - p); of a kernel of the product
dk/ds.  The library differentiates an expression of w once more.
"""

OF_DISTANCE = {
    "laplace": "-exp(-s / l) / l * pow(s, 1 - p)",
    "lpq-laplace": "-q / l * pow(s / l, q - 1) * exp(-pow(s / l, q)) * pow(s, 1 - p)",
    "product-laplace": "-q / l * pow(s / l, q - 1) * exp(-pow(s / l, q)) * pow(s, 1 - p)",
    "gaussian": "-exp(-s * s / (2 * l * l)) / (l * l)",
    "matern32": "-3 / (l * l) * exp(-sqrt(3) * s / l) * pow(s, 2 - p)",
    "matern52": "-5 / (3 * l * l) * (1 + sqrt(5) * s / l) * exp(-sqrt(5) * s / l) * pow(s, 2 - p)",
    "rational-quadratic": "-pow(1 + s * s / (2 * a * l * l), -a - 1) / (l * l)",
    "distance": "c * pow(s, c - p)",
}
OF_PRODUCT = {
    "linear": "1 + 0 * s",
    "polynomial": "g * n * pow(g * s + c, n - 1)",
    "sigmoid": "g * (1 - tanh(g * s + c) * tanh(g * s + c))",
}
