"""`assetsync run`: the parts that `reconcile` drives once, kept running by threads, a schedule and a watcher."""
