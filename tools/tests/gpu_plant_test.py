"""tools/gpu_plant.py without a GPU: every bug still has its place in the tree, and outputs are judged right."""

import contextlib
import io
import os
import sys
import unittest

TOOLS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TOOLS)

import gpu_plant  # noqa: E402
import gpu_plants  # noqa: E402


def entry(sound=False):
    return gpu_plant.entry("name", "what", "program", "*", sound)


class GpuPlantTest(unittest.TestCase):
    def test_every_bug_has_its_place(self):
        names = [plant.name for plant in gpu_plants.PLANTS + gpu_plants.TIMED]
        self.assertEqual(len(names), len(set(names)))
        for plant in gpu_plants.PLANTS + gpu_plants.TIMED:
            for edit in plant.edits:
                with self.subTest(plant.name), open(
                    os.path.join(os.path.dirname(TOOLS), edit.file), encoding="utf-8"
                ) as file:
                    text = file.read()
                    self.assertNotEqual(gpu_plant.planted_text(edit, text), text)

    def test_text_that_is_gone_is_refused(self):
        with self.assertRaisesRegex(ValueError, "0 times, not once: mend or remove"):
            gpu_plant.planted_text(gpu_plants.Edit("file", "old", "new"), "other")

    def test_bugs_are_caught_by_failures_hangs_and_crashes(self):
        failed = "[ RUN      ] A.B\n[  FAILED  ] A.B (3 ms)\n[  FAILED  ] A.B\n"
        self.assertEqual(gpu_plant.judge(entry(), 1, failed), (True, "caught by A.B"))
        hung = gpu_plant.judge(entry(), None, "[ RUN      ] A/C.D/0\n")
        self.assertEqual(hung, (True, "caught by a hang in A/C.D/0"))
        self.assertEqual(gpu_plant.judge(entry(), -6, "[ RUN      ] A.B\n"), (True, "caught by a crash in A.B"))
        self.assertEqual(gpu_plant.judge(entry(), 0, "[  PASSED  ] 3 tests."), (False, "NOT CAUGHT"))

    def test_a_device_that_is_not_there_proves_nothing(self):
        for sound in (False, True):
            good, line = gpu_plant.judge(entry(sound), 0, "[  SKIPPED ] A.B\n[  PASSED  ] 0 tests.")
            self.assertFalse(good)
            self.assertIn("no device", line)

    def test_a_sound_program_must_pass(self):
        self.assertTrue(gpu_plant.judge(entry(True), 0, "[  PASSED  ] 3 tests.")[0])
        self.assertFalse(gpu_plant.judge(entry(True), 0, "[  PASSED  ] 0 tests.")[0])
        self.assertFalse(gpu_plant.judge(entry(True), 1, "[  FAILED  ] A.B")[0])

    def test_times_are_read(self):
        text = (
            "  6144 x 4096       1 rows     13.82 us   3641 GB/s    3.6 TFLOP/s  split rows 8\n"
            "decode    1 x    640 positions:     7.04 us,   372 GB/s\n"
            "[       OK ] TileMatmulSpeed.DISABLED_Shapes (900 ms)\n"
        )
        wanted = {"6144 x 4096 1 rows": 13.82, "decode 1 x 640 positions": 7.04}
        self.assertEqual(gpu_plant.times_of(text), wanted)

    def test_cost_is_over_the_best_of_all(self):
        times = {"sound_a": {"x": 11.0, "y": 10.0, "z": 1.0}, "one": {"x": 10.0, "y": 12.0}, "two": {"x": 12.0}}
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            gpu_plant.report_cost(times)
        self.assertIn("10.0 %", out.getvalue())
        self.assertIn("all together: 5.0 %", out.getvalue())
        self.assertNotIn("z", out.getvalue())


if __name__ == "__main__":
    unittest.main()
