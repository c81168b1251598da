"""Tests tools/setup.sh with stand-ins for apt-get, sudo and cargo: what it says when something is missing,
that it leaves no stamp of a failed set-up, and that the second call does nothing."""

import os
import shutil
import stat
import subprocess
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMANDS = ("bash", "cat", "cmp", "cp", "cut", "id", "mkdir", "mv", "sed", "sort", "tail", "env")
HAS_SYSTEM_CARGO = os.path.exists("/usr/bin/cargo")


class Setup(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.bin = os.path.join(self.root, "bin")
        os.makedirs(os.path.join(self.root, "tools"))
        os.mkdir(self.bin)
        for command in COMMANDS:
            os.symlink(shutil.which(command), os.path.join(self.bin, command))
        shutil.copy(os.path.join(TOOLS, "setup.sh"), os.path.join(self.root, "tools"))
        self.packages("build g++ g++\nbuild libtoy-dev no_such_folder/toy.h\ntest npm npm\n")
        self.stub("g++", "echo 12")
        self.stub("id", "echo 0")

    def packages(self, text):
        with open(os.path.join(self.root, "tools", "packages.txt"), "w", encoding="utf-8") as file:
            file.write(text)

    def stub(self, name, script):
        path = os.path.join(self.bin, name)
        if os.path.islink(path):
            os.remove(path)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!{shutil.which('bash')}\n{script}\n")
        os.chmod(path, stat.S_IRWXU)

    def cargo(self, version, name="cargo"):
        self.stub(name, f"echo 'cargo {version} (0 2026-01-01)'")

    def only_the_compiler(self):
        self.packages("build g++ g++\n")

    def setup(self, group="build", **environment):
        script = "set -euo pipefail; source tools/setup.sh; setup " + group
        run = subprocess.run([os.path.join(self.bin, "bash"), "-c", script], cwd=self.root, text=True,
                             env=dict({"PATH": self.bin, "HOME": self.root}, **environment),
                             capture_output=True, check=False)
        self.assertEqual(run.stdout, "")
        return run.returncode, run.stderr

    def assert_fails(self, result, *texts):
        self.assertEqual(result[0], 1, result[1])
        for text in texts:
            self.assertIn(text, result[1])
        self.assertFalse(os.path.exists(os.path.join(self.root, "build", "setup", "build.done")))

    def test_all_there_is_silent_and_remembered(self):
        self.only_the_compiler()
        self.cargo("1.87.0")
        self.assertEqual(self.setup(), (0, ""))
        os.remove(os.path.join(self.bin, "g++"))  # a second look would miss it
        self.assertEqual(self.setup(), (0, ""))

    def test_a_changed_list_is_looked_at_again(self):
        self.only_the_compiler()
        self.cargo("1.95.0")
        self.assertEqual(self.setup()[0], 0)
        self.packages("build g++ g++\nbuild more no_such_folder/more.h\n")
        self.assertIn("more", self.setup()[1])

    def test_no_apt(self):
        self.assert_fails(self.setup(), "no apt-get here: libtoy-dev", "package manager")

    def test_not_root_and_no_sudo(self):
        self.stub("id", "echo 1000")
        self.stub("apt-get", "exit 0")
        self.assert_fails(self.setup(), "needs root or sudo: libtoy-dev", "As root: apt-get install")

    def test_sudo_refuses(self):
        self.stub("id", "echo 1000")
        self.stub("apt-get", "exit 0")
        self.stub("sudo", "exit 1")
        self.assert_fails(self.setup(), "sudo refused: libtoy-dev")

    def test_apt_fails(self):
        self.stub("apt-get", "[[ $1 != install ]] || { echo 'E: Unable to locate'; exit 100; }")
        self.assert_fails(self.setup(), "Installing with apt-get: libtoy-dev", "E: Unable to locate",
                          "could not install: libtoy-dev")

    def test_sudo_is_used_and_the_group_is_honoured(self):
        self.stub("id", "echo 1000")
        self.stub("sudo", f'echo "$*" >> {self.root}/log; [[ $1 == -* ]] || "$@"')
        self.stub("apt-get", "exit 0")
        self.cargo("1.90.0")
        self.assertEqual(self.setup("test")[0], 0)
        with open(os.path.join(self.root, "log"), encoding="utf-8") as file:
            log = file.read()
        self.assertIn("install -qq -y --no-install-recommends", log)
        self.assertIn("libtoy-dev npm", log)

    def test_missing_compiler(self):
        self.only_the_compiler()
        self.assert_fails(self.setup(CXX="no-such-g++"), "compiler 'no-such-g++' is missing", "CXX")

    def test_old_compiler(self):
        self.only_the_compiler()
        self.stub("g++", "echo 9")
        self.assert_fails(self.setup(), "is version 9; 12 or newer is needed")

    @unittest.skipIf(HAS_SYSTEM_CARGO, "this machine has /usr/bin/cargo")
    def test_old_cargo_and_no_package(self):
        self.only_the_compiler()
        self.cargo("1.86.0")
        self.assert_fails(self.setup(), "cargo 1.87 or newer is needed", "rustup")

    def install_cargo_from(self, package, candidates, name):
        """apt knows the candidates; installing the package makes a cargo of that name appear."""
        self.only_the_compiler()
        self.cargo("1.66.0")
        self.stub("apt-cache", 'case $1 in search) printf "cargo-1.9 - x\\ncargo-1.89 - x\\n";; '
                  f"policy) case $2 in {candidates} esac;; esac")
        self.stub("apt-get", f'[[ "$*" != *"{package}"* ]] || {{ printf "#!{shutil.which("bash")}\\n'
                  f'echo cargo 1.96.0\\n" > {self.bin}/{name}; chmod 755 {self.bin}/{name}; }}')
        os.symlink(shutil.which("chmod"), os.path.join(self.bin, "chmod"))
        return self.setup()

    @unittest.skipIf(HAS_SYSTEM_CARGO, "this machine has /usr/bin/cargo")
    def test_debians_browser_cargo(self):
        code, output = self.install_cargo_from(
            "cargo-web", 'cargo) echo "  Candidate: 0.66.0";; cargo-web) echo "  Candidate: 1.96.0";;',
            "cargo")
        self.assertEqual((code, output), (0, "Installing with apt-get: cargo-web\n"))

    @unittest.skipIf(HAS_SYSTEM_CARGO, "this machine has /usr/bin/cargo")
    def test_ubuntus_versioned_cargo(self):
        code, output = self.install_cargo_from(
            "cargo-1.89", 'g++) echo x;; cargo) echo "  Candidate: 1.75.0";;', "cargo-1.89")
        self.assertIn("Installing with apt-get: cargo-1.89", output)
        self.assertEqual(code, 0, output)


if __name__ == "__main__":
    unittest.main()
