"""A Berth daemon for tests: `berth serve` with its own folders, run as the user svc-berth.

    site = Site(DIR, cluster=c)          # c: slurm.Cluster; without: the local scheduler
    site.start()
    key = site.key("alice", project="gaia")
    site.cli("alice", "ps", "--json")    # `berth ps --json` as alice with her key
    site.kill(); site.start()            # SIGKILL, then the same state again
    site.close()

DIR must be reachable by all users. The program and the tiny engine are copied under DIR/.. once, so
that every user can run them wherever the checkout is. All failures are SiteError with the end of
the daemon's log. With `tls` in its configuration the site is spoken to by HTTPS, and its
certificate is the one that is trusted.
"""

import json
import os
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import engine
import slurm

SERVICE_USER = "svc-berth"


class SiteError(Exception):
    pass


def program():
    return os.environ.get("BERTH_TEST_PROGRAM", f"{engine.ROOT}/build/release/berth")


class Tools:
    """Copies of what jobs run, readable by every user: berth, the tiny engine, node."""

    def __init__(self, directory):
        self.dir = directory
        self.berth = f"{directory}/berth"
        self.model = f"{directory}/counter.gguf"
        if os.path.exists(self.model):
            return
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, 0o755)
        shutil.copy2(program(), self.berth)
        shutil.copytree(engine.TINY, f"{directory}/tiny", symlinks=True)
        self.node()
        shutil.copy2(engine.model_file(), self.model)

    def node(self):
        """A node that every user can run."""
        path = shutil.which(engine.node())
        if path.startswith("/usr/"):
            return path
        if not os.path.exists(f"{self.dir}/node"):
            shutil.copy2(path, f"{self.dir}/node")
        return f"{self.dir}/node"

    def engine(self, *args):
        return [self.node(), f"{self.dir}/tiny/serve.mjs", "--model", self.model, *args]


class Site:
    def __init__(self, directory, cluster=None, config=None, bin_dir="", env=None):
        self.dir, self.cluster, self.env = os.path.abspath(directory), cluster, env or {}
        self.tools = Tools(f"{os.path.dirname(self.dir)}/tools")
        self.state, self.shared = f"{self.dir}/state", f"{self.dir}/shared"
        self.log = f"{self.dir}/serve.log"
        self.process = None
        self.keys = {}
        slurm.make_users()
        os.makedirs(self.dir)
        os.chmod(self.dir, 0o755)
        for path, mode in ((self.state, 0o700), (self.shared, 0o755)):
            os.makedirs(path)
            os.chmod(path, mode)
            shutil.chown(path, SERVICE_USER, SERVICE_USER)
        values = {"state_dir": self.state, "shared_dir": self.shared, "listen": "127.0.0.1:0",
                  "scheduler": "slurm" if cluster else "local"}
        if cluster:
            values["slurm"] = {"conf": cluster.conf, "bin_dir": bin_dir or
                               (f"{cluster.root}/berth" if cluster.root else "")}
            values["munge"] = {"socket": f"{cluster.dir}/run/munge.sock"}
        values |= config or {}
        self.scheme = "https" if "tls" in values else "http"
        self.authority = values["tls"]["cert"] if "tls" in values else None
        with open(f"{self.dir}/config.yaml", "w") as f:
            json.dump(values, f)  # JSON is YAML

    # ---- the daemon -----------------------------------------------------------------------------

    def start(self, seconds=60):
        """Starts it and waits until it listens: where it did before, so that its jobs find it."""
        address = f"{self.state}/address"
        with open(self.log, "a") as log:
            self.process = self._popen(
                SERVICE_USER, [self.tools.berth, "serve", "--config", f"{self.dir}/config.yaml"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)
        end = time.monotonic() + seconds
        while not self._answers(address):
            if self.process.poll() is not None or time.monotonic() > end:
                raise SiteError(f"berth serve did not start: {self.process.poll()}\n{self.tail()}")
            time.sleep(0.01)
        return self

    @staticmethod
    def _answers(path):
        try:
            with open(path) as f:
                host, _, port = f.read().strip().rpartition(":")
            socket.create_connection((host, int(port)), timeout=1).close()
            return True
        except (OSError, ValueError):
            return False

    @property
    def url(self):
        with open(f"{self.state}/address") as f:
            return self.scheme + "://" + f.read().strip()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, seconds=20):
        """SIGTERM; returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise SiteError(f"berth serve did not end in {seconds} s\n{self.tail()}")

    def close(self):
        """Stops the daemon, then whatever of its jobs on this machine is left."""
        try:
            return self.stop()
        finally:
            for _ in range(3):
                for pid in slurm.processes():
                    argv = slurm.proc_text(pid, "cmdline")
                    env = slurm.proc_text(pid, "environ")
                    if f"{self.dir}/" in argv or f"{self.dir}/" in env:
                        try:
                            os.kill(pid, signal.SIGKILL)
                        except ProcessLookupError:
                            pass

    def tail(self, lines=25):
        with open(self.log, errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    # ---- its users ------------------------------------------------------------------------------

    def _popen(self, user, argv, env=None, **options):
        if self.cluster:
            return self.cluster.popen(user, argv, env=env, **options)
        who = pwd.getpwnam(user)
        base = {"PATH": slurm.PATH, "HOME": who.pw_dir, "USER": user, "LOGNAME": user,
                "LANG": "C.UTF-8"}
        return subprocess.Popen(argv, env=base | (env or {}), cwd="/", user=who.pw_uid,
                                group=who.pw_gid, extra_groups=os.getgrouplist(user, who.pw_gid),
                                **options)

    def cli(self, user, *args, check=True, timeout=60, env=None, text=None):
        """`berth ARGS` as a user, with the user's key when there is one. Returns the finished
        process, its output as text."""
        env = {"BERTH_URL": self.url} | (
            {"BERTH_CA_FILE": self.authority} if self.authority else {}) | (
            {"BERTH_KEY": self.keys[user]} if user in self.keys else {}) | (env or {})
        p = self._popen(user, [self.tools.berth, *args], env=env, stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = p.communicate(text, timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            raise SiteError(f"berth {args} as {user}: no end in {timeout} s\n{p.communicate()}")
        done = subprocess.CompletedProcess(args, p.returncode, out, err)
        if check and done.returncode:
            raise SiteError(f"berth {' '.join(args)} as {user}: status {done.returncode}\n"
                            f"{out}{err}\n{self.tail()}")
        return done

    def admin(self, *args, **options):
        """A command of the operator: the daemon's own user, by the socket in the state folder."""
        return self.cli(SERVICE_USER, *args, env={"BERTH_URL": f"unix:{self.state}/berth.sock"},
                        **options)

    def key(self, user, project=""):
        """The user's API key, made once."""
        if user not in self.keys:
            args = ["key", "create", f"{user}-test", "--user", user]
            args += ["--project", project] if project else []
            self.keys[user] = self.admin(*args).stdout.strip()
        return self.keys[user]

    def request(self, path, user="", body=None, timeout=30, headers=None):
        """(status, parsed body, headers) of a request to the gateway."""
        head = {"Content-Type": "application/json"} | (headers or {})
        if user:
            head["Authorization"] = f"Bearer {self.keys[user]}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, head)
        handlers = [urllib.request.ProxyHandler({})]
        if self.authority:
            trust = ssl.create_default_context(cafile=self.authority)
            handlers.append(urllib.request.HTTPSHandler(context=trust))
        opener = urllib.request.build_opener(*handlers)
        try:
            reply = opener.open(request, timeout=timeout)
        except urllib.error.HTTPError as e:
            reply = e
        text = reply.read()
        try:
            return reply.status, json.loads(text), reply.headers
        except ValueError:
            return reply.status, text, reply.headers

    def models(self, user):
        """What the catalogue shows a user: id -> entry."""
        status, body, _ = self.request("/v1/models", user)
        if status != 200:
            raise SiteError(f"/v1/models: {status} {body}")
        return {m["id"]: m for m in body["data"]}

    def service(self, user, name):
        """The API's document of a service, {} when there is none that the user may see."""
        status, body, _ = self.request(
            f"/berth/v1/services/{urllib.parse.quote(name, safe='')}", user)
        return body if status == 200 else {}

    def wait(self, predicate, seconds, what):
        try:
            slurm.wait_until(predicate, seconds, what)
        except slurm.RigError as e:
            raise SiteError(f"{e}\n{self.tail()}") from e
