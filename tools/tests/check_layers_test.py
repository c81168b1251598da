"""Plants one violation of each rule of check_layers.py in a small tree and sees it caught."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "check_layers.py")
LAYERS = "base:\ntensor: base\nmodels: base tensor\ntesting: any (included only by tests)\napps: any\n"
HEADER = "// A header.\n#ifndef {guard}\n#define {guard}\n{body}\n#endif  // {guard}\n"


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.write("src/LAYERS", LAYERS)
        self.write("src/base/error.h", HEADER.format(guard="ASHLAR_BASE_ERROR_H_", body=""))
        self.write("src/tensor/view.cc", '// A view.\n#include "base/error.h"\n#include <vector>\n')
        self.write("src/tensor/view_test.cc", '// Tests.\n#include "testing/paths.h"\n')
        self.write("tests/golden/a_test.cc", '// Tests.\n#include "models/llama.h"\n')

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def check(self):
        result = subprocess.run([sys.executable, TOOL, self.root], capture_output=True, text=True,
                                check=False)
        return result.returncode, result.stdout

    def assert_caught(self, path, text, *expected):
        self.write(path, text)
        code, output = self.check()
        self.assertEqual(code, 1, output)
        lines = [line for line in output.splitlines() if line.startswith(path + ":")]
        self.assertEqual(len(lines), 1, output)
        for part in expected:
            self.assertIn(part, lines[0])

    def test_a_clean_tree_passes(self):
        self.assertEqual(self.check(), (0, "layers: 4 files, 0 violations\n"))

    def test_include_upwards(self):
        self.assert_caught("src/base/up.cc", '// Up.\n#include "tensor/view.h"\n', ":2: layers:",
                           "base may not include")

    def test_include_of_an_unknown_folder(self):
        self.assert_caught("src/base/odd.cc", '// Odd.\n#include "nowhere/x.h"\n', "no layer")

    def test_folder_without_a_line(self):
        self.assert_caught("src/extra/x.cc", '// X.\n#include "base/error.h"\n', "has no line")

    def test_cycle_in_the_layer_list(self):
        self.assert_caught("src/LAYERS", LAYERS.replace("base:", "base: tensor", 1), "not above it")

    def test_testing_outside_tests(self):
        self.assert_caught("src/tensor/bad.cc", '// Bad.\n#include "testing/paths.h"\n', "testing:")

    def test_cuda_header_outside_cuda_files(self):
        self.assert_caught("src/tensor/gpu.cc", "// G.\n#include <cuda_runtime.h>\n", "cuda:")

    def test_cuda_header_in_a_cuda_file_passes(self):
        self.write("src/tensor/copy_cuda.cc", "// C.\n#include <cuda_runtime.h>\n")
        self.assertEqual(self.check()[0], 0)

    def test_cuda_header_in_a_device_header_passes(self):
        self.write("src/tensor/math.cuh", "// M.\n#ifndef ASHLAR_TENSOR_MATH_CUH_\n"
                   "#include <cuda_bf16.h>\n#endif\n")
        self.write("src/tensor/copy_cuda_sm90a.cu", '// C.\n#include "tensor/math.cuh"\n')
        self.assertEqual(self.check()[0], 0)

    def test_device_header_outside_cuda_files(self):
        self.assert_caught("src/tensor/gpu.cc", '// G.\n#include "tensor/math.cuh"\n', "cuda:")

    def test_cuda_host_header_outside_cuda_files(self):
        self.assert_caught("src/tensor/gpu.h", HEADER.format(
            guard="ASHLAR_TENSOR_GPU_H_", body='#include "tensor/launch_cuda.h"'), "cuda:")

    def test_a_test_of_device_code_may_use_helpers(self):
        self.write("src/tensor/copy_cuda_test.cu", '// C.\n#include "testing/paths.h"\n')
        self.assertEqual(self.check()[0], 0)

    def test_nccl_header_outside_nccl_files(self):
        self.assert_caught("src/tensor/all_cuda.cc", "// N.\n#include <nccl.h>\n", "_nccl")

    def test_conditional(self):
        self.assert_caught("src/tensor/if.cc", "// I.\n#ifdef __AVX2__\n#endif\n", "conditional:")

    def test_platform_conditional_in_a_highway_file(self):
        self.assert_caught("src/tensor/x_cpu.cc", "// I.\n#if HWY_ONCE\n#endif\n#if __linux__\n#endif\n",
                           ":4: conditional:")

    def test_highway_frame_outside_cpu_files(self):
        self.assert_caught("src/tensor/y.cc", "// I.\n#if HWY_ONCE\n#endif\n", "conditional:")

    def test_getenv(self):
        self.assert_caught("src/base/env.cc", '// E.\nconst char* h = getenv("HOME");\n', "getenv:")

    def test_getenv_where_it_belongs_passes(self):
        self.write("apps/ashlar/environment.cc", '// E.\nconst char* h = std::getenv("HOME");\n')
        self.assertEqual(self.check()[0], 0)

    def test_wrong_guard(self):
        self.write("src/base/guard.h", HEADER.format(guard="GUARD_H", body=""))
        code, output = self.check()
        self.assertEqual(code, 1)
        self.assertIn("the include guard is ASHLAR_BASE_GUARD_H_", output)

    def test_missing_opening_comment(self):
        self.assert_caught("src/base/silent.cc", "int x;\n", "opening:")


if __name__ == "__main__":
    unittest.main()
