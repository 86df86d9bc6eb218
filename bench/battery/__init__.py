"""How well `gram fit` and other packages predict tables, and how long they take to learn them."""
