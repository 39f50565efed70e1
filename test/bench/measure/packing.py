"""What Ray's own client does with a working directory: packing.py DIRECTORY DASHBOARD prints seconds and bytes as JSON."""
import json
import pathlib
import sys
import tempfile
import time

from ray._private.runtime_env.packaging import create_package, get_uri_for_directory
from ray.job_submission import JobSubmissionClient

directory, dashboard = sys.argv[1:]
client = JobSubmissionClient(dashboard)

with tempfile.TemporaryDirectory() as scratch:
    package = pathlib.Path(scratch) / "package.zip"
    start = time.perf_counter()
    get_uri_for_directory(directory, include_gitignore=True)
    create_package(directory, package, include_gitignore=True)
    pack = time.perf_counter() - start
    size = package.stat().st_size

client._upload_package_if_needed(directory, include_gitignore=True)
start = time.perf_counter()
client._upload_package_if_needed(directory, include_gitignore=True)
again = time.perf_counter() - start
print(json.dumps({"pack": pack, "size": size, "again": again}))
