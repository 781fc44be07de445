#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""collect.py FILE DIRECTORY DEVICE - runs rdma-core's tests and writes what became of each to FILE (JSON).

DIRECTORY takes the unpacked tests: Debian ships them compressed, as documentation.
collect.py --there - prints what is missing here, if anything is.
"""
import gzip
import importlib.machinery
import importlib.util
import json
import os
import shutil
import sys
import unittest

SHIPPED = "/usr/share/doc/rdma-core/tests"


def missing():
    if not os.path.isdir(SHIPPED):
        return "no " + SHIPPED
    return "" if importlib.util.find_spec("pyverbs") else "no pyverbs"


def unpack(to):
    os.makedirs(to)
    for name in os.listdir(SHIPPED):
        path = os.path.join(SHIPPED, name)
        if name.endswith(".gz"):
            with gzip.open(path) as src, open(os.path.join(to, name[:-3]), "wb") as dst:
                shutil.copyfileobj(src, dst)
        elif os.path.isfile(path):
            shutil.copy(path, to)


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.rows = []

    def note(self, test, what, text=""):
        name = test.id().replace("tests.", "", 1)
        print("# %-5s %s%s" % (what, name, ": " + text if what == "skip" else ""), flush=True)
        self.rows.append({"name": name, "what": what, "text": text})

    def addSuccess(self, test):
        self.note(test, "ok")

    def addSkip(self, test, reason):
        self.note(test, "skip", reason)

    def addFailure(self, test, err):
        self.note(test, "fail", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        self.note(test, "error", self._exc_info_to_string(err, test))


def flat(suite):
    """The tests of a suite, which may contain suites."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def main():
    if sys.argv[1:] == ["--there"]:
        print(missing())
        return 0
    out, work, device = sys.argv[1:4]
    there = os.path.join(work, "tests")
    if not os.path.isdir(there):
        unpack(there)
    sys.path.insert(0, there)
    sys.argv[1:] = ["--dev", device, "--gid", "1"]
    tests = importlib.machinery.SourceFileLoader("tests", os.path.join(there, "__init__.py")).load_module()
    sys.modules["args_parser"].parser.parse_args()
    suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
    only = os.environ.get("PYVERBS_ONLY")
    if only:
        suite = unittest.defaultTestLoader.loadTestsFromNames(["tests." + n for n in only.split(",")])
    result = Result()
    without = os.environ.get("PYVERBS_NOT", "").split(",")
    for test in flat(suite):
        if test.id().replace("tests.", "", 1) in without:
            result.note(test, "skip", "not run")
        else:
            test.run(result)
    with open(out, "w") as f:
        json.dump(result.rows, f)
    return 0


if __name__ == "__main__":
    sys.exit(main())
