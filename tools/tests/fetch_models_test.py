"""Tests fetch_models.py with the real pip against packages made here and a server on the loopback.

Each failure must say what happened and what to do, exit non-zero, and leave nothing half-done: no model
file and no temporary folder. No test uses the network.
"""

import functools
import hashlib
import http.server
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile

TOOL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fetch_models.py")
PART_BYTES = 3_000_000


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def make_wheel(folder, name, data):
    """A wheel that pip accepts, with the data as one stored (incompressible) member."""
    path = os.path.join(folder, f"{name}-1.0-py3-none-any.whl")
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}/data.bin", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL",
                       "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


class SlowIndex(http.server.BaseHTTPRequestHandler):
    """A package index whose wheels stop after half their bytes: cut off, or held open without end."""

    wheels = ""
    cut = False
    reached_half = None  # threading.Event
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        name = self.path.strip("/").split("/")[-1]
        if not name.endswith(".whl"):
            links = "".join(f'<a href="/files/{w}">{w}</a>' for w in os.listdir(self.wheels)
                            if w.startswith(name.replace("-", "_")))
            self.answer("text/html", f"<!DOCTYPE html><html><body>{links}</body></html>".encode())
            return
        with open(os.path.join(self.wheels, name), "rb") as file:
            data = file.read()
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2])
        self.wfile.flush()
        self.reached_half.set()
        if not self.cut:
            time.sleep(30)

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


class FetchModels(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.home)
        self.wheels = os.path.join(self.home, "wheels")
        self.models = os.path.join(self.home, "cache", "models")
        os.mkdir(self.wheels)
        self.parts = [os.urandom(PART_BYTES) for _ in range(2)]
        self.table = {"toy": {"title": "Toy", "sources": [], "files": [{
            "path": "toy/model.bin", "bytes": 2 * PART_BYTES, "sha256": sha256(b"".join(self.parts)),
            "members": ["toy_part1/data.bin", "toy_part2/data.bin"]}]}}
        for number, part in enumerate(self.parts, 1):
            path = make_wheel(self.wheels, f"toy_part{number}", part)
            with open(path, "rb") as file:
                archive = file.read()
            self.table["toy"]["sources"].append({
                "client": "pip", "package": f"toy-part{number}", "version": "1.0",
                "bytes": len(archive), "sha256": sha256(archive)})
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("PIP_")}
        self.environment.update(HOME=self.home, PIP_CONFIG_FILE=os.devnull, PIP_NO_INDEX="1",
                                PIP_FIND_LINKS=self.wheels, PIP_DEFAULT_TIMEOUT="5")

    def start(self, **options):
        table = os.path.join(self.home, "table.json")
        with open(table, "w", encoding="utf-8") as file:
            json.dump(self.table, file)
        return subprocess.Popen([sys.executable, TOOL, "--dir", self.models, "--table", table, "toy"],
                                env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, **options)

    def run_tool(self, **options):
        process = self.start(**options)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output

    def use_index(self, url):
        for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
            self.environment.pop(name, None)
        self.environment["PIP_INDEX_URL"] = url

    def serve(self, cut):
        handler = type("Handler", (SlowIndex,), {"wheels": self.wheels, "cut": cut,
                                                 "reached_half": threading.Event()})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.use_index(f"http://127.0.0.1:{server.server_address[1]}/simple")
        return handler.reached_half

    def assert_nothing_left(self):
        left = [name for name in os.listdir(self.models) if name != ".lock"]
        self.assertEqual(left, [])

    def assert_fails_cleanly(self, result, *texts):
        code, output = result
        self.assertNotEqual(code, 0, output)
        for text in texts:
            self.assertIn(text, output)
        self.assertNotIn("Traceback", output)
        self.assert_nothing_left()

    def assert_fetched(self):
        with open(os.path.join(self.models, "toy", "model.bin"), "rb") as file:
            self.assertEqual(sha256(file.read()), self.table["toy"]["files"][0]["sha256"])

    def test_joins_the_parts_and_is_silent_the_second_time(self):
        code, output = self.run_tool()
        self.assertEqual(code, 0, output)
        self.assertIn("Fetching Toy", output)
        self.assert_fetched()
        self.assertEqual(sorted(os.listdir(self.models)), [".lock", "toy"])
        self.assertEqual(self.run_tool(), (0, ""))

    def test_a_truncated_model_is_fetched_again(self):
        self.run_tool()
        os.truncate(os.path.join(self.models, "toy", "model.bin"), 1000)
        self.assertEqual(self.run_tool()[0], 0)
        self.assert_fetched()

    def test_a_changed_pin_is_fetched_again(self):
        self.run_tool()
        self.table["toy"]["files"][0]["sha256"] = "0" * 64
        code, output = self.run_tool()
        self.assertEqual(code, 1)
        self.assertIn("wrong checksum: toy/model.bin", output)

    def test_wrong_archive_checksum(self):
        make_wheel(self.wheels, "toy_part2", self.parts[1][:-1] + b"x")
        self.assert_fails_cleanly(self.run_tool(), "wrong checksum: toy-part2 1.0",
                                  self.table["toy"]["sources"][1]["sha256"],
                                  "should not be trusted")

    def test_no_network(self):
        self.use_index("http://127.0.0.1:9/simple")
        self.assert_fails_cleanly(self.run_tool(), "pip could not reach its package index",
                                  "toy-part1", "Check the network")

    def test_download_cut_off_by_the_server(self):
        self.serve(cut=True)
        self.assert_fails_cleanly(self.run_tool(), "toy-part1 1.0", "run the command again")

    def test_terminated_in_the_middle(self):
        half = self.serve(cut=False)
        process = self.start()
        self.assertTrue(half.wait(60))
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        self.assert_fails_cleanly((process.returncode, output), "interrupted; nothing was kept")

    def test_what_a_killed_fetch_left_is_removed_by_the_next(self):
        half = self.serve(cut=False)
        process = self.start(start_new_session=True)
        self.assertTrue(half.wait(60))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        self.assertFalse(os.path.exists(os.path.join(self.models, "toy")))
        self.environment.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=self.wheels)
        self.assertEqual(self.run_tool()[0], 0)
        self.assert_fetched()
        self.assertEqual(sorted(os.listdir(self.models)), [".lock", "toy"])

    def limited(self, count):
        return functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (count, count))

    def test_disk_full_while_downloading(self):
        self.assert_fails_cleanly(self.run_tool(preexec_fn=self.limited(PART_BYTES // 2)),
                                  "the disk is full", "XDG_CACHE_HOME")

    def test_disk_full_while_unpacking(self):
        # Each archive fits, their sum does not.
        self.assert_fails_cleanly(self.run_tool(preexec_fn=self.limited(PART_BYTES * 3 // 2)),
                                  "the disk is full", "XDG_CACHE_HOME")

    def test_disk_too_small_is_said_before_the_download(self):
        self.table["toy"]["sources"][0]["bytes"] = 10**16
        self.assert_fails_cleanly(self.run_tool(), "not enough free space in", "are free")

    def test_folder_that_cannot_be_made(self):
        with open(os.path.join(self.home, "cache"), "w", encoding="ascii"):
            pass
        code, output = self.run_tool()
        self.assertEqual(code, 1)
        self.assertIn("cannot write into", output)
        self.assertNotIn("Traceback", output)

    def test_a_second_fetch_waits_for_the_first(self):
        import fcntl

        os.makedirs(self.models)
        with open(os.path.join(self.models, ".lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = self.start()
            self.assertIn("Waiting for another fetch", process.stdout.readline())
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, output)
        self.assert_fetched()

    def test_missing_client(self):
        self.table["toy"]["sources"][0]["client"] = "npm"
        self.environment["PATH"] = os.path.join(self.home, "nowhere")
        self.assert_fails_cleanly(self.run_tool(), "npm is missing", "./do setup")


class PinnedTable(unittest.TestCase):
    def test_every_entry_is_pinned(self):
        with open(os.path.join(os.path.dirname(TOOL), "models.json"), encoding="utf-8") as file:
            table = json.load(file)
        self.assertEqual(set(table), {"smollm2", "gemma3", "qwen3-tokenizer"})
        for model in table.values():
            for entry in model["sources"] + model["files"]:
                self.assertRegex(entry["sha256"], "^[0-9a-f]{64}$")
                self.assertGreater(entry["bytes"], 0)


if __name__ == "__main__":
    unittest.main()
