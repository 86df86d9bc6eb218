"""How well `gram fit` and other packages predict tables, and how long they take to learn them."""

# Beside the best of which on each table a contender is set: packages with their defaults, and the
# searches with the best default.
DEFAULT_PEERS = ("lightgbm", "catboost", "xgboost", "histgb", "extra-trees")
TUNED_PEERS = ("xrfm-tuned", "histgb-tuned", "catboost")
