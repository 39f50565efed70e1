import sys
import time

import ray

path, wanted = sys.argv[1], int(sys.argv[2])
ray.init(logging_level="ERROR")
while sum(n["Alive"] for n in ray.nodes()) < wanted:
    time.sleep(0.05)
first = time.time()
with open(path, "w") as f:
    f.write("%.6f %.6f\n" % (first, time.time()))
