"""`run`: the same parts that `reconcile` drives, kept going by threads, a schedule and a watcher."""
