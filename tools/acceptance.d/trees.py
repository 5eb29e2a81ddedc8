"""20 trees on 5,000 rows, twice; how many of the rows they tell apart."""

import lightgbm
import numpy as np

rows = np.random.RandomState(0).rand(5000, 20)
classes = (rows[:, 0] + rows[:, 1] > 1).astype(int)
for leaves in (15, 7):
    given = {"objective": "binary", "device_type": "gpu", "verbose": -1, "num_threads": 2, "num_leaves": leaves}
    model = lightgbm.train(given, lightgbm.Dataset(rows, classes), 20)
    print(f"{((model.predict(rows) > 0.5) == classes).mean():.2f}")
