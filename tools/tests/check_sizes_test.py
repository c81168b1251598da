"""Plants files and functions at and over the limits of check_sizes.py."""

import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import check_sizes  # noqa: E402


def function(lines, head="int f(int a) {"):
    return "\n".join([head] + ["  a += 1;"] * (lines - 2) + ["}"]) + "\n"


class CheckSizes(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)

    def violations(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
        return check_sizes.check(self.root)[1]

    def test_file_limit(self):
        self.assertEqual(self.violations("src/a.cc", "//\n" * 500), [])
        self.assertIn("501 lines", self.violations("src/a.cc", "//\n" * 501)[0])

    def test_function_limit(self):
        self.assertEqual(self.violations("src/a.cc", function(70)), [])
        self.assertIn("f has 71 lines", self.violations("src/a.cc", function(71))[0])

    def test_kernel_limit(self):
        for name in ("a_cpu.cc", "a_cpu_vnni.cc", "a_cuda.cu", "a_cuda_sm90a.cu"):
            self.assertEqual(self.violations("src/" + name, function(120)), [])
            self.assertIn("121 lines", self.violations("src/" + name, function(121))[0])
            os.remove(os.path.join(self.root, "src", name))

    def test_forms_of_functions(self):
        for head in ("Foo::Foo(int a) : a_(a), b_(1) {", "Foo::Foo(int a) : a_{a}, b_{1} {",
                     "auto f(int a) const -> int {", "template <class T>\nT f(T a) noexcept {",
                     "TEST(Suite, Name) {", "std::vector<int> operator+(const V& a) {"):
            self.assertEqual(len(self.violations("src/a.cc", function(80, head))), 1, head)

    def test_a_long_class_of_short_functions_passes(self):
        body = "".join(f"  int f{i}() {{\n    return {i};\n  }}\n" for i in range(40))
        self.assertEqual(self.violations("src/a.h", f"namespace n {{\nclass A {{\n{body}}};\n}}\n"), [])

    def test_braces_in_text_do_not_count(self):
        text = 'int f() {\n  g("{", \'{\', R"(})"); // {\n  /* { */\n  return 1\'000;\n}\n'
        self.assertEqual([(n, l, c) for n, l, c in check_sizes.functions(text + function(3, "int g() {"))],
                         [("f", 1, 5), ("g", 6, 3)])


if __name__ == "__main__":
    unittest.main()
