"""Which products bench/cublas_baseline.py times: each once, the head of a prompt's part at one row."""

import importlib.util
import os
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPEC = importlib.util.spec_from_file_location("baseline", os.path.join(ROOT, "bench", "cublas_baseline.py"))
baseline = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(baseline)


class Cases(unittest.TestCase):
    def test_a_model_has_four_matrices_and_a_head(self):
        cases = baseline.wanted(["qwen3-8b"], [], [16, 2048])
        for m in (16, 2048):
            for n, k in ((6144, 4096), (4096, 4096), (24576, 4096), (4096, 12288)):
                self.assertIn((m, n, k), cases)
        self.assertEqual([m for m, n, _ in cases if n == 151936], [1, 16])

    def test_shapes_are_taken_once(self):
        cases = baseline.wanted(["qwen3-8b", "llama-3.1-8b"], [(6144, 4096), (5, 8)], [1])
        self.assertEqual(len(cases), len(set(cases)))
        self.assertIn((1, 5, 8), cases)
        self.assertEqual(cases, sorted(cases))


if __name__ == "__main__":
    unittest.main()
