"""The measured workflows on DBOS, with its system database in SQLite.

Given to `python3 -c`. Without arguments it says what is installed. With a directory and a number it serves measurements of up to so many
runs at once: a line of JSON on stdin asks for one, a line on stdout has its figures. It ends with its stdin.
"""

import json
import os
import platform
import sqlite3
import sys
import threading
import time
from http.client import HTTPConnection
from importlib.metadata import version
from urllib.parse import urlsplit

from dbos import DBOS

# A run is written down when it is started and makes its first step when the gate opens: what is measured are the steps.
gate = threading.Event()
connections = threading.local()


@DBOS.step()
def add(i):
    return i


@DBOS.step()
def post(url, i):
    at = urlsplit(url)
    if not hasattr(connections, "to"):
        connections.to = HTTPConnection(at.hostname, at.port)
    connections.to.request("POST", at.path, json.dumps({"i": i}), {"content-type": "application/json"})
    answer = connections.to.getresponse()
    answer.read()
    if answer.status != 200:
        raise RuntimeError(f"the server answered {answer.status}")
    return answer.status


@DBOS.workflow()
def compute(steps):
    gate.wait()
    return sum(add(i) for i in range(steps))


@DBOS.workflow()
def posting(steps, url):
    gate.wait()
    return sum(post(url, i) for i in range(steps))


def measure(asked):
    """All runs, from the opening of the gate until each one's result is known."""
    runs, steps, url = asked["runs"], asked["steps"], asked.get("url")
    gate.clear()
    if url is None:
        handles = [DBOS.start_workflow(compute, steps) for _ in range(runs)]
        expected = steps * (steps - 1) // 2
    else:
        handles = [DBOS.start_workflow(posting, steps, f"{url}/{n}") for n in range(runs)]
        expected = 200 * steps
    each = []

    def wait(handle):
        result = handle.get_result()
        each.append((time.perf_counter() - began) * 1e6)
        if result != expected:
            each.append(None)

    waiting = [threading.Thread(target=wait, args=(handle,)) for handle in handles]
    began = time.perf_counter()
    gate.set()
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    if len(each) != runs or None in each:
        raise RuntimeError(f"not all of {runs} runs have the result that they should have")
    return {"each_us": each}


def installed():
    return f"dbos {version('dbos')}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"


def settings(dbos):
    """What its own connections say; it sets neither of the two itself."""
    try:
        with dbos._sys_db.engine.connect() as connection:
            asked = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
        return "journal_mode={}, synchronous={}".format(*asked)
    except Exception as error:
        return f"unknown ({error!r})"


def serve(directory, at_once):
    dbos = DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{directory}/dbos.sqlite",
            "application_version": "bench",
            "max_executor_threads": max(at_once, 64),
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    print(json.dumps({"pids": [os.getpid()], "settings": settings(dbos)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(json.loads(line))), flush=True)
    # Its own threads would be waited for.
    os._exit(0)


if len(sys.argv) == 1:
    print(json.dumps({"installed": installed()}))
else:
    serve(sys.argv[1], int(sys.argv[2]))
