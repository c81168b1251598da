"""Checks the counts of count_tests.py: skipped cases are not passed ones, and a crash is a failure."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "count_tests.py")


def case(name, result="COMPLETED", **more):
    return dict({"name": name, "status": "RUN", "result": result}, **more)


class CountTests(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.makedirs(os.path.join(self.folder, "tests", "results"))
        os.makedirs(os.path.join(self.folder, "Testing", "Temporary"))

    def result(self, program, *cases):
        with open(os.path.join(self.folder, "tests", "results", program + ".json"), "w",
                  encoding="utf-8") as file:
            json.dump({"testsuites": [{"name": "Suite", "testsuite": list(cases)}]}, file)

    def ctest_failed(self, *programs):
        with open(os.path.join(self.folder, "Testing", "Temporary", "LastTestsFailed.log"), "w",
                  encoding="utf-8") as file:
            file.writelines(f"{i}:{name}\n" for i, name in enumerate(programs, 1))

    def count(self):
        run = subprocess.run([sys.executable, TOOL, self.folder], capture_output=True, text=True,
                             check=False)
        return run.returncode, run.stdout

    def test_passed_and_skipped(self):
        self.result("base", case("A"), case("B"), case("C", "SKIPPED"),
                    case("D", status="NOTRUN", result="SUPPRESSED"))
        self.assertEqual(self.count(), (0, "skipped: Suite.C\n2 passed, 0 failed, 1 skipped\n"))

    def test_failed_case_counts_once(self):
        self.result("base", case("A"), case("B", failures=[{"failure": "x"}]))
        self.ctest_failed("base")
        self.assertEqual(self.count(), (1, "1 passed, 1 failed, 0 skipped\n"))

    def test_crashed_program_counts(self):
        self.result("base", case("A"))
        self.ctest_failed("engine")
        self.assertEqual(self.count(), (1, "1 passed, 1 failed, 0 skipped\n"))


if __name__ == "__main__":
    unittest.main()
