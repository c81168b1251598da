"""tools/gpu_sanitize.sh with a sanitizer that is a script: what it prints decides line and exit status."""

import os
import subprocess
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu_sanitize.sh")

CLEAN = """
echo "[  PASSED  ] 3 tests."
case "$*" in
*racecheck*) echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" ;;
*) echo "========= ERROR SUMMARY: 0 errors" ;;
esac
"""


class GpuSanitizeTest(unittest.TestCase):
    def run_with(self, body, **environment):
        with tempfile.TemporaryDirectory() as folder:
            sanitizer = os.path.join(folder, "sanitizer")
            with open(sanitizer, "w", encoding="utf-8") as file:
                file.write("#!/bin/bash\n" + body)
            os.chmod(sanitizer, 0o755)
            variables = dict(os.environ, SANITIZER=sanitizer, LOGS=os.path.join(folder, "logs"), **environment)
            result = subprocess.run(
                ["bash", SCRIPT, folder], env=variables, capture_output=True, text=True, check=False
            )
            self.assertEqual(result.stderr, "")
            return result.returncode, result.stdout

    def test_clean(self):
        status, out = self.run_with(CLEAN)
        self.assertEqual(status, 0, out)
        self.assertEqual(out.count(" clean\n"), out.count("\n") - 1)
        for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
            self.assertIn(tool, out)

    def test_findings(self):
        hazards = 'echo "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)"; exit 99'
        status, out = self.run_with("case $* in *racecheck*) %s ;; esac\n%s" % (hazards, CLEAN))
        self.assertEqual(status, 1, out)
        self.assertIn("FOUND: RACECHECK SUMMARY: 2 hazards", out)
        self.assertIn("clean", out)

    def test_failed_tests_are_findings(self):
        status, out = self.run_with('echo "[  FAILED  ] Ops.Work (3 ms)"; exit 1')
        self.assertEqual(status, 1, out)
        self.assertIn("FOUND: tests fail: Ops.Work", out)

    def test_what_was_not_seen_is_not_clean(self):
        for body, text in (
            ('echo "========= Error: Device not supported"; exit 1', "refuses this machine"),
            ('echo "[  SKIPPED ] 3 tests."; echo "========= ERROR SUMMARY: 0 errors"', "skipped"),
            ("sleep 5", "stopped after 1 s"),
            ("exit 3", "no test ran (exit 3)"),
            ('echo "[  PASSED  ] 0 tests."; echo "========= ERROR SUMMARY: 0 errors"', "no test ran"),
        ):
            status, out = self.run_with(body, GROUP_SECONDS="1", TOOLS="racecheck", JOBS="8")
            self.assertEqual(status, 2, out)
            self.assertIn(text, out)

    def test_patterns_are_written_out(self):
        status, out = self.run_with('echo "$*" >>"$0.filters"\ngrep -q "\\[" "$0.filters" && exit 3\n' + CLEAN)
        self.assertEqual(status, 0, out)


if __name__ == "__main__":
    unittest.main()
