"""Tests ./do with stand-ins for cmake, ninja and the program: what it passes on, what it says when a part
fails, and that nothing of its own talk reaches stdout."""

import json
import os
import shutil
import stat
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


class Do(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.bin = os.path.join(self.root, "bin")
        os.mkdir(self.bin)
        self.tree = os.path.join(self.root, "tree")
        os.mkdir(self.tree)
        shutil.copy(os.path.join(ROOT, "do"), self.tree)
        shutil.copytree(os.path.join(ROOT, "tools"), os.path.join(self.tree, "tools"),
                        ignore=shutil.ignore_patterns("__pycache__"))
        # Set-up and models count as done: their own tests cover them.
        os.makedirs(os.path.join(self.tree, "build", "setup"))
        for group in ("build", "test"):
            shutil.copy(os.path.join(self.tree, "tools", "packages.txt"),
                        os.path.join(self.tree, "build", "setup", group + ".done"))
        self.stub("cargo", "exit 0")
        with open(os.path.join(self.tree, "build", "setup", "cargo"), "w", encoding="utf-8") as file:
            file.write(os.path.join(self.bin, "cargo") + "\n")
        self.fake_models()
        self.stub("cmake", f"echo cmake >> {self.root}/log; mkdir -p build/cpu; "
                  "touch build/cpu/build.ninja; echo talk")
        self.stub("ninja", f"echo ninja >> {self.root}/log; echo talk")
        self.stub(os.path.join(self.tree, "build", "cpu", "ashlar"),
                  'printf "[%s]" "$@"; echo " in $PWD"')

    def fake_models(self):
        """An empty file of the pinned size with its marker passes for a fetched one."""
        with open(os.path.join(ROOT, "tools", "models.json"), encoding="utf-8") as file:
            entry = json.load(file)["smollm2"]["files"][0]
        models = os.path.join(self.root, "cache", "ashlar", "models")
        os.makedirs(models)
        with open(os.path.join(models, MODEL), "wb") as file:
            file.truncate(entry["bytes"])
        with open(os.path.join(models, f".{MODEL}.sha256"), "w", encoding="ascii") as file:
            file.write(entry["sha256"])
        self.model = os.path.join(models, MODEL)

    def stub(self, name, script):
        path = os.path.join(self.bin, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!{shutil.which('bash')}\n{script}\n")
        os.chmod(path, stat.S_IRWXU)

    def do(self, *arguments, cwd=None, **variables):
        environment = dict(os.environ, PATH=self.bin + ":" + os.environ["PATH"], HOME=self.root,
                           XDG_CACHE_HOME=os.path.join(self.root, "cache"), **variables)
        run = subprocess.run([os.path.join(self.tree, "do"), *arguments], cwd=cwd or self.tree, text=True,
                             env=environment, capture_output=True, check=False)
        return run.returncode, run.stdout, run.stderr

    def log(self):
        with open(os.path.join(self.root, "log"), encoding="utf-8") as file:
            return file.read().split()

    def test_run_passes_everything_on(self):
        code, output, _ = self.do("run", "Why is the sky blue?", "--seed", "1", cwd=self.bin)
        self.assertEqual(code, 0)
        self.assertEqual(output, f"[run][{self.model}][Why is the sky blue?][--seed][1] in {self.bin}\n")

    def test_the_second_call_neither_configures_nor_talks(self):
        self.do("run", "a")
        self.stub("ninja", f"echo ninja >> {self.root}/log; echo 'ninja: no work to do.'")
        self.assertEqual(self.do("run", "a")[2], "")
        self.assertEqual(self.log(), ["cmake", "ninja", "ninja"])

    def test_configuring_fails(self):
        self.stub("cmake", "echo 'CMake Error at CMakeLists.txt:1: no header'; exit 1")
        code, output, errors = self.do("run", "a")
        self.assertEqual((code, output), (1, ""))
        self.assertIn("no header", errors)
        self.assertIn("cmake could not configure the build", errors)

    def test_building_fails(self):
        self.stub("ninja", "echo 'error: expected ;'; exit 1")
        code, output, errors = self.do("run", "a")
        self.assertEqual((code, output), (1, ""))
        self.assertIn("expected ;", errors)
        self.assertIn("the build failed", errors)

    def test_rebuilding_fails(self):
        self.do("run", "a")
        self.stub("ninja", "echo 'error: expected ;'; exit 1")
        code, output, errors = self.do("run", "a")
        self.assertEqual((code, output), (1, ""))
        self.assertIn("expected ;", errors)

    def test_an_unknown_command(self):
        code, output, errors = self.do("fly")
        self.assertEqual((code, output), (1, ""))
        self.assertIn("no command 'fly'", errors)

    def test_help_is_the_default(self):
        self.assertEqual(self.do()[:2], self.do("help")[:2])
        self.assertIn("usage: ./do COMMAND", self.do()[1])

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "this machine has a CUDA device")
    def test_cuda_tests_need_a_device(self):
        code, _, errors = self.do("test", "cuda")
        self.assertEqual(code, 1)
        self.assertIn("no CUDA device", errors)

    def cuda_machine(self, device_test):
        """A compiler, a device file, and a device test that prints this."""
        self.stub("nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.88'")
        self.stub("cmake", f'echo "$*" > {self.root}/cmake; mkdir -p build/cuda; touch build/cuda/build.ninja')
        self.stub("ctest", f'echo "$*" > {self.root}/ctest')
        self.stub(os.path.join(self.tree, "build", "cuda", "tests", "device_cuda_test"),
                  f"echo '{device_test}'")
        os.makedirs(os.path.join(self.tree, "build", "cuda", "tests", "results"))
        self.device_file = os.path.join(self.bin, "cmake")  # any that exists

    def test_cuda_tests_need_a_device_that_works(self):
        self.cuda_machine("skipped: no CUDA device: the NVIDIA driver is too old: it knows CUDA 12.8")
        code, _, errors = self.do("test", "cuda", NVIDIA_DEVICE_FILE=self.device_file)
        self.assertEqual(code, 1)
        self.assertIn("do: the CUDA device cannot be used.\n    the NVIDIA driver is too old", errors)
        self.assertFalse(os.path.exists(os.path.join(self.root, "ctest")))

    def test_cuda_tests_are_run_with_the_compiler_that_was_found(self):
        self.cuda_machine("[       OK ]")
        self.do("test", "cuda", NVIDIA_DEVICE_FILE=self.device_file)
        with open(os.path.join(self.root, "cmake"), encoding="utf-8") as file:
            self.assertIn(f"--preset cuda -DASHLAR_CARGO={self.bin}/cargo", text := file.read())
        self.assertIn(f"-DASHLAR_NVCC={self.bin}/nvcc", text)
        with open(os.path.join(self.root, "ctest"), encoding="utf-8") as file:
            self.assertIn("--tests-regex ^(.*_cuda)$", file.read())


if __name__ == "__main__":
    unittest.main()
