"""The driver of every case: prints numbered lines, and writes into a book, which the test reads, what it did and whether it was alone.

Usage: driver.py BOOK LINES PAUSE EXIT_CODE SHA256_OF_THE_SECRET BURSTS
"""
import fcntl
import hashlib
import os
import sys
import threading
import time

import part  # of the working directory: the package arrived


def note(book, name, text=""):
    """A new file of the book; False if it is there already."""
    try:
        with open(os.path.join(book, name), "x") as page:
            page.write(text)
        return True
    except FileExistsError:
        return False


def work(book, attempt, bursts):
    """Tasks for which nodes have to come, and pauses in which they go. Tasks of a node that is lost are done again."""
    import ray
    ray.init(log_to_driver=False, logging_level="ERROR")
    threading.Thread(target=serve, args=(ray, book), daemon=True).start()

    def once(name):
        if not note(book, f"task-{name}"):
            note(book, f"repeated-{name}-{time.time()}")
        time.sleep(1.5)

    task = ray.remote(num_cpus=0, resources={"w": 1}, max_retries=-1)(once)
    for burst in range(bursts):
        ray.get([task.remote(f"{attempt}-{burst}-{i}") for i in range(4)])
        note(book, f"burst-{attempt}-{burst}")
        time.sleep(5)
    while doing:
        time.sleep(0.1)


doing = set()


def serve(ray, book):
    """Does what the test asks for, in a file of the book: demand that flaps, and demand that no group can meet."""
    while True:
        for what in ("flap", "unmet"):
            if os.path.exists(os.path.join(book, "ask-" + what)):
                doing.add(what)
                if note(book, "doing-" + what):
                    {"flap": flap, "unmet": unmet}[what](ray, book)
                    note(book, "did-" + what)
                doing.discard(what)
        time.sleep(0.1)


def flap(ray, book):
    for _ in range(20):
        group = ray.util.placement_group([{"w": 1}] * 2, strategy="STRICT_SPREAD")
        time.sleep(1)
        ray.util.remove_placement_group(group)
        time.sleep(0.3)


def unmet(ray, book):
    task = ray.remote(num_cpus=1000)(lambda: None).remote()
    while not os.path.exists(os.path.join(book, "enough")):
        time.sleep(0.1)
    ray.cancel(task)


def main():
    book, lines, pause, code, digest = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    attempt, me = os.environ["RAYCTL_ATTEMPT"], f"{os.uname().nodename} {os.getpid()}"
    alone = open(os.path.join(book, "lock"), "a")
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        note(book, f"violation-two-drivers-{attempt}-{os.getpid()}", me)
    if not note(book, f"begun-{attempt}", me):
        note(book, f"violation-attempt-twice-{attempt}-{os.getpid()}", me)
    if hashlib.sha256(os.environ.get("WORD", "").encode()).hexdigest() != digest:
        note(book, f"violation-no-secret-{attempt}", me)
    if os.environ.get("FROM_JOB") != "a 'value' of the job" or part.VALUE != 42:
        note(book, f"violation-no-runtime-env-{attempt}", me)
    busy = threading.Thread(target=work, args=(book, attempt, int(sys.argv[6])), daemon=True)
    if int(sys.argv[6]):
        busy.start()
    with open(os.path.join(book, f"progress-{attempt}"), "w") as progress:
        for line in range(1, lines + 1):
            print(f"attempt {attempt} line {line} {'x' * (line * 37 % 400)}", flush=True)
            progress.seek(0)
            progress.write(str(line))
            progress.flush()
            time.sleep(pause)
    if int(sys.argv[6]):
        busy.join()
        if not os.path.exists(os.path.join(book, f"burst-{attempt}-{int(sys.argv[6]) - 1}")):
            note(book, f"violation-work-failed-{attempt}", me)
    note(book, f"ended-{attempt}", me)
    sys.exit(code)


main()
