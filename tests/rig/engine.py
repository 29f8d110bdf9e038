"""Starts the tiny engine (engines/tiny) for tests.

    with Engine(args=["--served-model-name", "tiny"]) as e:
        e.url            # http://127.0.0.1:PORT, answering

`model_file()` is the counting model, made once a machine. `command(...)` is the engine's command
line, for those who let something else start it.
"""

import os
import re
import signal
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TINY = f"{ROOT}/engines/tiny"
CACHE = os.environ.get("BERTH_RIG_CACHE", "/var/tmp/berth-rig")


def node():
    return os.environ.get("BERTH_TEST_NODE", "node")


def model_file():
    """The counting model, readable by every user. Made anew when its generator has changed."""
    path = f"{CACHE}/counter.gguf"
    source = f"{TINY}/gguf.py"
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
        os.makedirs(CACHE, exist_ok=True)
        draft = f"{path}.{os.getpid()}"
        subprocess.run(["/usr/bin/python3", source, draft], check=True, stdout=subprocess.DEVNULL)
        os.chmod(draft, 0o644)
        os.rename(draft, path)
    return path


def command(*args, model=None):
    return [node(), f"{TINY}/serve.mjs", "--model", model or model_file(), *args]


def installed():
    return os.path.isdir(f"{TINY}/node_modules/@fugood")


class Engine:
    def __init__(self, args=(), model=None, env=None, wait=True):
        # Appending: reading must not move where the engine writes.
        self.log = tempfile.NamedTemporaryFile("ab")
        self.process = subprocess.Popen(
            command("--port", "0", *args, model=model), env=os.environ | (env or {}),
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.url = ""
        if wait:
            self.wait_ready()

    def output(self):
        with open(self.log.name, "rb") as f:
            return f.read().decode(errors="replace")

    def wait_ready(self, seconds=30):
        end = time.monotonic() + seconds
        while "\nready\n" not in self.output():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"the engine did not start:\n{self.output()[-2000:]}")
            time.sleep(0.02)
        self.url = re.search(r"listening on (http://[^,]+),", self.output())[1]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        return self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
