"""Tests tools/setup_cuda.sh with stand-ins for nvcc and python3: which compiler is taken, what is said when
it can be neither found nor installed, and that a broken installation is made anew."""

import os
import shutil
import stat
import subprocess
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMANDS = ("bash", "cat", "chmod", "cmp", "cp", "ln", "mkdir", "mv", "rm", "env")
NVCC = "build/cuda_toolkit/nvidia/cu13/bin/nvcc"


def answer(release):
    return f"echo 'Cuda compilation tools, release {release}, V{release}.1'"


class SetupCuda(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.bin = os.path.join(self.root, "bin")
        os.makedirs(os.path.join(self.root, "tools"))
        os.mkdir(self.bin)
        for command in COMMANDS:
            os.symlink(shutil.which(command), os.path.join(self.bin, command))
        for name in ("setup.sh", "setup_cuda.sh"):
            shutil.copy(os.path.join(TOOLS, name), os.path.join(self.root, "tools"))
        self.list("toy==1 --hash=sha256:00\n")
        self.pip()

    def list(self, text):
        with open(os.path.join(self.root, "tools", "cuda.txt"), "w", encoding="utf-8") as file:
            file.write(text)

    def stub(self, path, script):
        path = os.path.join(self.bin, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!{shutil.which('bash')}\n{script}\n")
        os.chmod(path, stat.S_IRWXU)

    def pip(self, result="exit 0", release="13.0"):
        """A python3 whose pip notes its call and installs an nvcc of that release."""
        self.stub("python3", f"""
if [[ $1 == -c ]]; then exit 0; fi
echo "$*" >> {self.root}/pip
mkdir -p build/cuda_toolkit/nvidia/cu13/bin build/cuda_toolkit/nvidia/cu13/lib
printf '#!{shutil.which("bash")}\\n%s\\n' "{answer(release)}" > {NVCC}
chmod 755 {NVCC}
{result}""")

    def pip_calls(self):
        path = os.path.join(self.root, "pip")
        if not os.path.exists(path):
            return 0
        with open(path, encoding="utf-8") as file:
            return len(file.readlines())

    def setup(self):
        script = "set -euo pipefail; source tools/setup.sh; source tools/setup_cuda.sh; setup_cuda"
        run = subprocess.run([os.path.join(self.bin, "bash"), "-c", script], cwd=self.root, text=True,
                             env={"PATH": self.bin, "HOME": self.root,
                                  "CUDA_FOLDER": os.path.join(self.root, "cuda")},
                             capture_output=True, check=False)
        self.assertEqual(run.stdout, "")
        return run.returncode, run.stderr

    def chosen(self):
        with open(os.path.join(self.root, "build", "setup", "nvcc"), encoding="utf-8") as file:
            return file.read().strip()

    def test_nvcc_on_the_path_is_taken(self):
        self.stub("nvcc", answer("13.2"))
        self.assertEqual(self.setup(), (0, ""))
        self.assertEqual(self.chosen(), os.path.join(self.bin, "nvcc"))
        self.assertEqual(self.pip_calls(), 0)

    def test_the_usual_folder_is_looked_at(self):
        self.stub(os.path.join(self.root, "cuda", "bin", "nvcc"), answer("14.0"))
        self.assertEqual(self.setup(), (0, ""))
        self.assertEqual(self.chosen(), os.path.join(self.root, "cuda", "bin", "nvcc"))

    def test_an_old_toolkit_is_named_and_passed_over(self):
        self.stub("nvcc", answer("12.4"))
        code, output = self.setup()
        self.assertEqual(code, 0, output)
        self.assertIn(f"{self.bin}/nvcc is of CUDA 12.4; 13.0 or newer is needed", output)
        self.assertEqual(self.chosen(), os.path.join(self.root, NVCC))

    def test_the_packages_are_installed_once(self):
        code, output = self.setup()
        self.assertEqual(code, 0, output)
        self.assertIn("Installing the CUDA compiler with pip into build/cuda_toolkit", output)
        self.assertEqual(self.chosen(), os.path.join(self.root, NVCC))
        with open(os.path.join(self.root, "pip"), encoding="utf-8") as file:
            call = file.read()
        for flag in ("--no-deps", "--require-hashes", "--only-binary :all:", "-r tools/cuda.txt"):
            self.assertIn(flag, call)
        self.assertEqual(os.readlink(os.path.join(self.root, "build/cuda_toolkit/nvidia/cu13/lib64")), "lib")
        self.assertEqual(self.setup(), (0, ""))
        self.assertEqual(self.pip_calls(), 1)

    def test_a_changed_list_is_installed_anew(self):
        self.setup()
        self.list("toy==2 --hash=sha256:00\n")
        self.assertIn("Installing", self.setup()[1])

    def test_an_installation_that_was_cut_short_is_made_anew(self):
        self.setup()
        os.remove(os.path.join(self.root, "build/cuda_toolkit/cuda.txt"))
        self.assertEqual(self.setup()[0], 0)
        self.assertEqual(self.pip_calls(), 2)

    def test_a_damaged_compiler_is_installed_anew(self):
        self.setup()
        os.remove(os.path.join(self.root, NVCC))
        self.assertEqual(self.setup()[0], 0)
        self.assertEqual(self.pip_calls(), 2)

    def test_no_pip(self):
        self.stub("python3", "exit 1")
        code, output = self.setup()
        self.assertEqual(code, 1)
        self.assertIn("needs pip", output)
        self.assertIn("python3-pip, or CUDA 13", output)

    def test_a_download_that_fails_leaves_nothing(self):
        self.pip(result="echo 'ERROR: hashes do not match' >&2; exit 1")
        code, output = self.setup()
        self.assertEqual(code, 1)
        self.assertIn("hashes do not match", output)
        self.assertIn("could not install the packages of tools/cuda.txt", output)
        self.assertFalse(os.path.exists(os.path.join(self.root, "build/cuda_toolkit")))
        self.assertFalse(os.path.exists(os.path.join(self.root, "build/setup/nvcc")))

    def test_a_compiler_that_does_not_run_here(self):
        self.pip(result=f"printf 'junk' > {NVCC}")
        code, output = self.setup()
        self.assertEqual(code, 1)
        self.assertIn("does not run", output)
        self.assertFalse(os.path.exists(os.path.join(self.root, "build/cuda_toolkit/cuda.txt")))


if __name__ == "__main__":
    unittest.main()
