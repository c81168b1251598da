"""The figures of bench/compare_llama_cpp.py, and that both sides are asked for the same work."""

import importlib.util
import os
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPEC = importlib.util.spec_from_file_location("compare", os.path.join(ROOT, "bench", "compare_llama_cpp.py"))
compare = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(compare)


def side(tok_s, peak, before=0):
    return {"tok_s": tok_s, "peak_resident_bytes": peak, "resident_before_model_bytes": before}


class Summary(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        # The machine was half as fast in the second round; the ratio is 2 in all of them.
        rounds = [(side(200, 5), side(100, 9, 3)), (side(100, 6), side(50, 8, 3)),
                  (side(202, 7), side(101, 7, 3))]
        out = compare.summary(rounds)
        self.assertEqual(out["ratios"], [2, 2, 2])
        self.assertEqual(out["ashlar_tok_s"], 200)
        self.assertEqual(out["peer_tok_s"], 100)
        self.assertEqual(out["ashlar_peak_resident_bytes"], 6)
        self.assertEqual(out["peer_peak_resident_bytes"], 8)
        self.assertEqual(out["peer_resident_before_model_bytes"], 3)

    def test_spread_is_reported(self):
        out = compare.summary([(side(10, 1), side(10, 1)), (side(30, 1), side(10, 1))])
        self.assertEqual((out["ratio_min"], out["ratio_median"], out["ratio_max"]), (1, 2, 3))


class Work(unittest.TestCase):
    def test_context_holds_all_sequences(self):
        for name, case in compare.CASES.items():
            _, sequences, prompt, output = case
            self.assertGreaterEqual(compare.context_of(case), sequences * (prompt + output), name)

    def test_ashlar_gets_the_case(self):
        options = types.SimpleNamespace(program="ashlar", model="m.gguf", threads=2)
        words = compare.ashlar_words(options, "decode8")
        self.assertEqual(words[words.index("--concurrency") + 1], "8")
        self.assertEqual(words[words.index("--prompt-tokens") + 1], "128")
        self.assertEqual(words[words.index("--threads") + 1], "2")
        words = compare.ashlar_words(options, "prefill2048")
        self.assertEqual(words[words.index("--lengths") + 1], "2048")


if __name__ == "__main__":
    unittest.main()
