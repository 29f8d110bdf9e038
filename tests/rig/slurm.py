#!/usr/bin/env python3
"""A real Slurm cluster on loopback, for tests: munged, slurmctld, five slurmd and, if asked,
MariaDB and slurmdbd. Everything lives in one folder and is stopped by its recorded pid.

  slurm.py up DIR [--port N] [--accounting] [--cgroups] [--prefix P] [--root DIR] [--set KEY=VALUE]
  slurm.py down DIR
  slurm.py kill|freeze|thaw|start DIR DAEMON      slurmctld, slurmdbd, mariadbd, slurmd-NODE
  slurm.py lose-node DIR NODE                     SIGKILL of slurmd, stepds and the jobs' processes
  slurm.py as DIR USER COMMAND...                 runs COMMAND as USER, set up for this cluster

`up` prints `export SLURM_CONF=...`. Ports used: N (slurmctld), N+1 (slurmdbd), N+11 to N+15
(slurmd); without --port a free block is found. Nodes: h100n1 h100n2 (4 GPUs each), h200n1 (8),
mign1 (4 + 2), cpun1; partitions cpu (default), h100, h200, mig, short, preempt. Users, made when
missing: alice and bob (account gaia; bob also vesta), svc-berth (infra, gaia, vesta), carol (has
an account nowhere). DIR/shared is the directory all jobs see; users other than root must be able
to reach DIR. With --accounting the ready database is kept in BERTH_RIG_CACHE (default
/var/tmp/berth-rig) so that the next start takes seconds. --root DIR uses the Slurm of another
Debian that tools/dev/trixie prepared there; its commands are in DIR/berth.

Needs root: the jobs run as several users. As a module: Cluster(dir, ...).up() / .down().
Errors are RigError with the ends of the daemons' logs.
"""

import argparse
import fcntl
import hashlib
import json
import os
import pwd
import random
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from dataclasses import asdict

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import slurm_files as files  # noqa: E402

USERS = {"alice": 7001, "bob": 7002, "carol": 7003, "svc-berth": 7010}
CACHE = os.environ.get("BERTH_RIG_CACHE", "/var/tmp/berth-rig")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEEDED = ["munged", "slurmctld", "slurmd", "sbatch"]
NEEDED_ACCOUNTING = ["slurmdbd", "mariadbd", "mariadb-install-db"]


class RigError(Exception):
    pass


def missing(accounting=False):
    """The programs that `up` needs and this machine lacks."""
    names = NEEDED + (NEEDED_ACCOUNTING if accounting else [])
    return [name for name in names if not shutil.which(name, path=PATH)]


def alive(pid):
    """Whether a process runs. A zombie counts as gone: an init that reaps slowly leaves those."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(predicate, seconds, what, detail=lambda: ""):
    end = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() > end:
            raise RigError(f"waited {seconds} s for {what}\n{detail()}".rstrip())
        time.sleep(0.03)


def free_ports(count=16):
    """A base port with `count` free ports above it, below the range of outgoing connections."""
    for _ in range(200):
        base = random.randrange(20000, 31000, count)
        held = []
        try:
            for port in range(base, base + count):
                s = socket.socket()
                held.append(s)
                s.bind(("127.0.0.1", port))
            return base
        except OSError:
            pass
        finally:
            for s in held:
                s.close()
    raise RigError("no block of free ports between 20000 and 31000")


def make_users():
    os.makedirs(CACHE, exist_ok=True)
    with open(f"{CACHE}/users.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, uid in USERS.items():
            try:
                pwd.getpwnam(name)
            except KeyError:
                taken = any(u.pw_uid == uid for u in pwd.getpwall())
                subprocess.run(["useradd", "-m", "-s", "/bin/bash",
                                *([] if taken else ["-u", str(uid)]), name], check=True)


def processes():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def proc_text(pid, what):
    try:
        with open(f"/proc/{pid}/{what}", "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


class Cluster:
    """One cluster in one folder. Not thread-safe; one object a cluster at a time."""

    def __init__(self, directory, port=0, root="", **shape):
        self.dir = os.path.abspath(directory)
        self.root = os.path.abspath(root) if root else ""
        self.shape = files.Shape(self.dir, port, **shape)
        if root:
            self.shape.plugin_dir = f"{self.root}/usr/lib/x86_64-linux-gnu/slurm-wlm"
        self.conf = f"{self.dir}/etc/slurm.conf"
        self.shared = f"{self.dir}/shared"
        self.started = time.monotonic()

    @staticmethod
    def load(directory):
        """The cluster that `up` started in a folder, perhaps from another process."""
        with open(f"{directory}/cluster.json") as f:
            saved = json.load(f)
        shape = saved["shape"]
        return Cluster(shape.pop("dir"), shape.pop("port"), saved["root"], **shape)

    # ---- using it -----------------------------------------------------------------------------

    def path(self):
        return (f"{self.root}/berth:" if self.root else "") + PATH

    def env(self, user="root"):
        """The whole environment of a command: nothing of the caller's gets in."""
        home = pwd.getpwnam(user).pw_dir
        return {"PATH": self.path(), "SLURM_CONF": self.conf, "HOME": home, "USER": user,
                "LOGNAME": user, "LANG": "C.UTF-8", "SHELL": "/bin/bash"}

    def popen(self, user, argv, env=None, cwd=None, **options):
        """Starts a command as a user, in the shared directory unless said otherwise."""
        who = pwd.getpwnam(user)
        return subprocess.Popen(
            argv, env=self.env(user) | (env or {}), cwd=cwd or self.shared, user=who.pw_uid,
            group=who.pw_gid, extra_groups=os.getgrouplist(user, who.pw_gid), **options)

    def run(self, user, argv, timeout=60, check=True, text="", **options):
        """Runs a command as a user with `text` as its input; returns its output, stripped."""
        p = self.popen(user, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, **options)
        try:
            out, err = p.communicate(text, timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            raise RigError(f"{shlex.join(argv)} as {user}: no answer in {timeout} s: {err}")
        if check and p.returncode:
            raise RigError(f"{shlex.join(argv)} as {user}: status {p.returncode}: {err or out}")
        return out.strip()

    def sbatch(self, user, script, *options):
        """Submits a script (its text); returns the job id."""
        path = f"{self.shared}/{user}-{time.monotonic_ns()}.sh"
        with open(path, "w") as f:
            f.write(script if script.startswith("#!") else "#!/bin/bash\n" + script)
        os.chmod(path, 0o755)
        return int(self.run(user, ["sbatch", "--parsable", *options, path]).split(";")[0])

    def job(self, job_id):
        """The fields of `scontrol show job`, or {} when slurmctld has forgotten the job."""
        text = self.run("root", ["scontrol", "-o", "show", "job", str(job_id)], check=False)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def wait_job(self, job_id, *states, seconds=30):
        wait_until(lambda: self.job(job_id).get("JobState") in states, seconds,
                   f"job {job_id} to be {' or '.join(states)}", lambda: str(self.job(job_id)))

    def wait_saved(self, job_id):
        """Until slurmctld has written a job to disk. It does so some seconds after a change; a
        SIGKILL before that makes it forget the job, whose processes go on."""
        asked = time.time()
        self.run("root", ["scontrol", "update", f"jobid={job_id}", "comment=saved"])
        wait_until(lambda: os.stat(f"{self.dir}/state/job_state").st_mtime > asked, 30,
                   "slurmctld to save its jobs")

    # ---- faults -------------------------------------------------------------------------------

    def pid(self, daemon):
        try:
            with open(f"{self.dir}/run/{daemon}.pid") as f:
                pid = int(f.read() or 0)
        except (OSError, ValueError):
            return 0
        # A recorded pid may belong to a stranger by now.
        name = daemon.split("-")[0]
        return pid if pid and alive(pid) and name in proc_text(pid, "cmdline") else 0

    def signal(self, daemon, number):
        pid = self.pid(daemon)
        if not pid:
            raise RigError(f"{daemon} does not run in {self.dir}")
        os.kill(pid, number)
        return pid

    def freeze(self, daemon):
        self.signal(daemon, signal.SIGSTOP)

    def thaw(self, daemon):
        self.signal(daemon, signal.SIGCONT)

    def kill(self, daemon):
        pid = self.signal(daemon, signal.SIGKILL)
        wait_until(lambda: not alive(pid), 10, f"{daemon} to be gone")

    def stop(self, daemon, seconds=15):
        """SIGTERM, then SIGKILL. Does nothing when it is not running."""
        pid = self.pid(daemon)
        if pid:
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGTERM)
            try:
                wait_until(lambda: not alive(pid), seconds, daemon)
            except RigError:
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda: not alive(pid), 5, f"{daemon} to be gone")
        if os.path.exists(f"{self.dir}/run/{daemon}.pid"):
            os.remove(f"{self.dir}/run/{daemon}.pid")

    def lose_node(self, node):
        """What a power cut does, as far as one machine can show it: SIGKILL of the node's slurmd,
        of its slurmstepds and of every process of its jobs. Returns how many were killed."""
        jobs = set(self.run("root", ["squeue", "-h", "-w", node, "-o", "%A"]).split())
        if self.pid(f"slurmd-{node}"):
            self.signal(f"slurmd-{node}", signal.SIGKILL)
        killed = 1
        for _ in range(3):  # a process may fork while we look
            for pid in self.job_processes(jobs):
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
        return killed

    def job_processes(self, jobs=None):
        """Processes of this cluster's jobs (all, or those with the given ids) and their stepds."""
        parents, ours = {}, set()
        for pid in processes():
            parents[pid] = int((proc_text(pid, "stat").rpartition(")")[2].split() or [0, 0])[1])
            title = proc_text(pid, "cmdline")
            env = proc_text(pid, "environ").split("\0")
            if f"SLURM_CONF={self.conf}" not in env:
                continue
            if title.startswith("slurmstepd: ["):
                job = title[len("slurmstepd: ["):].split(".")[0]
            else:
                job = next((v[13:] for v in env if v.startswith("SLURM_JOB_ID=")), "")
            if job and (jobs is None or job in jobs):
                ours.add(pid)
        for pid in list(parents):  # children that cleared their environment
            chain, at = [], pid
            while at > 1 and at not in ours:
                chain.append(at)
                at = parents.get(at, 0)
            if at in ours:
                ours.update(chain)
        return [pid for pid in ours if alive(pid)]

    # ---- starting -----------------------------------------------------------------------------

    def up(self, keep=False):
        """Starts everything and waits until all nodes are idle. `keep` keeps an older state."""
        self._check()
        if os.path.isdir(self.dir) and not keep:
            shutil.rmtree(self.dir)
        make_users()
        try:
            self._write_files()
            self.start("munged")
            if self.shape.accounting:
                self._start_accounting()
            for daemon in ["slurmctld"] + [f"slurmd-{node}" for node in self.shape.nodes()]:
                self.start(daemon)
            self.wait_idle()
        except BaseException:
            self._stop_daemons()
            raise
        return self

    def _check(self):
        if os.geteuid() != 0:
            raise RigError("needs root: the jobs of a test cluster run as several users")
        lacking = [] if self.root else missing(self.shape.accounting)
        if lacking:
            raise RigError("not installed: " + ", ".join(lacking))
        if self.shape.cgroups and not os.path.isdir("/sys/fs/cgroup/memory"):
            raise RigError("cgroups: no v1 hierarchies in /sys/fs/cgroup; leave cgroups off")
        if self.daemons():
            raise RigError(f"{self.dir}: already up ({', '.join(self.daemons())}); take it down")
        if os.path.isdir(self.dir) and os.listdir(self.dir) and not os.path.exists(
                f"{self.dir}/cluster.json"):
            raise RigError(f"{self.dir} is not empty and not a cluster's; choose another folder")
        self.shape.port = self.shape.port or free_ports()

    def _write_files(self):
        d = self.dir
        for name in ("", "etc", "run", "log", "state", "spool", "dev", "munge", "shared"):
            os.makedirs(f"{d}/{name}", exist_ok=True)
            os.chmod(f"{d}/{name}", 0o755)
        self._write("cluster.json", json.dumps({"root": self.root, "shape": asdict(self.shape)}))
        os.chmod(self.shared, 0o1777)
        for node in self.shape.nodes():
            os.makedirs(f"{d}/spool/{node}", exist_ok=True)
        if not os.path.exists(f"{d}/munge/munge.key"):
            self._write("munge/munge.key", os.urandom(1024), 0o600)
        # Character devices of nvidia's major number: open() fails with ENXIO where allowed and
        # with EPERM where a device cgroup forbids it.
        for i in range(8):
            if not os.path.exists(f"{d}/dev/nvidia{i}"):
                os.mknod(f"{d}/dev/nvidia{i}", 0o666 | stat.S_IFCHR, os.makedev(195, i))
        self._write("etc/slurm.conf", files.slurm_conf(self.shape))
        self._write("etc/gres.conf", files.gres_conf(self.shape))
        self._write("etc/cgroup.conf", files.cgroup_conf(self.shape))
        if self.shape.accounting:
            self._write("etc/slurmdbd.conf", files.slurmdbd_conf(self.shape), 0o600)

    def _write(self, name, data, mode=0o644):
        data = data.encode() if isinstance(data, str) else data
        with open(f"{self.dir}/{name}", "wb", opener=lambda p, f: os.open(p, f, mode)) as f:
            f.write(data)

    def start(self, daemon):
        """Starts one daemon, also one that was killed. Returns when it was launched."""
        d = self.dir
        if daemon == "munged":
            argv = ["munged", f"--key-file={d}/munge/munge.key", f"--socket={d}/run/munge.sock",
                    f"--pid-file={d}/run/munged.pid", f"--log-file={d}/log/munged.log",
                    f"--seed-file={d}/munge/munge.seed", "--num-threads=4"]
            if os.path.exists(f"{d}/run/munge.sock") and not self.pid("munged"):
                argv.append("--force")
        elif daemon == "mariadbd":
            return self._start_mariadb()
        elif daemon == "slurmdbd":
            argv = ["slurmdbd"]
        elif daemon == "slurmctld":
            argv = ["slurmctld", "-i"]
        else:
            argv = ["slurmd", "-N", daemon.removeprefix("slurmd-")]
            if self.root:
                argv += ["-d", f"{self.root}/berth/slurmstepd"]
        env = self.env() | {"MYSQL_UNIX_PORT": f"{d}/run/mysqld/mysqld.sock"}
        with open(f"{d}/log/start.log", "a") as log:
            rc = subprocess.run([shutil.which(argv[0], path=self.path()) or argv[0], *argv[1:]],
                                env=env, cwd=d, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                close_fds=True, start_new_session=True).returncode
        if rc:
            raise RigError(f"{shlex.join(argv)}: status {rc}\n{self._logs()}")

    def wait_idle(self, seconds=60):
        """Until every node is idle. A daemon whose port is taken still starts with status 0."""
        self._wait_nodes({"idle"}, seconds)

    def wait_idle_or_busy(self, seconds=60):
        """Until every node answers, with or without jobs: after a fault."""
        self._wait_nodes({"idle", "mixed", "allocated", "completing"}, seconds)

    def _wait_nodes(self, states, seconds):
        def there():
            out = self.run("root", ["sinfo", "-h", "-N", "-o", "%N %T"], check=False)
            rows = [line.split() for line in out.splitlines()]
            return {row[0] for row in rows if row[1] in states} == set(self.shape.nodes())
        wait_until(there, seconds, f"all nodes to be {' or '.join(sorted(states))}", self._logs)

    def _logs(self):
        text = []
        for name in sorted(os.listdir(f"{self.dir}/log")):
            with open(f"{self.dir}/log/{name}", errors="replace") as f:
                last = f.readlines()[-5:]
            text += [f"--- {name}\n", *last]
        return "".join(text)

    # ---- accounting ---------------------------------------------------------------------------

    def _cache(self):
        key = hashlib.sha256(json.dumps([files.ACCOUNTING_SESSIONS, self.root]).encode())
        key.update(subprocess.run(["mariadbd", "--version"], stdout=subprocess.PIPE).stdout)
        key.update(open(os.path.abspath(__file__), "rb").read())
        return f"{CACHE}/mysql-{key.hexdigest()[:12]}"

    def _start_accounting(self):
        d, cache = self.dir, self._cache()
        data = f"{d}/mysql"
        fresh = not os.path.isdir(data)
        if fresh and os.path.isdir(cache):
            subprocess.run(["cp", "-a", cache, data], check=True)
            fresh = False
        elif fresh:
            os.makedirs(data, mode=0o700)
            with open(f"{d}/log/install-db.log", "w") as log:
                subprocess.run(["mariadb-install-db", "--no-defaults", "--user=root",
                                f"--datadir={data}", "--skip-test-db", "--innodb-log-file-size=8M",
                                "--auth-root-authentication-method=normal"],
                               stdout=log, stderr=log, check=True)
        self._start_mariadb()
        self._start_slurmdbd()
        if not fresh:
            return
        for session in files.ACCOUNTING_SESSIONS:
            self.run("root", ["sacctmgr", "-i"], text=session)
        # Keep the ready database; another run may be doing the same.
        self.stop("slurmdbd")
        self.stop("mariadbd", seconds=30)
        os.makedirs(CACHE, exist_ok=True)
        draft = f"{cache}.{os.getpid()}"
        subprocess.run(["cp", "-a", data, draft], check=True)
        try:
            os.rename(draft, cache)
        except OSError:
            shutil.rmtree(draft)
        self._start_mariadb()
        self._start_slurmdbd()

    def _start_mariadb(self):
        d = self.dir
        os.makedirs(f"{d}/run/mysqld", mode=0o700, exist_ok=True)
        sock = f"{d}/run/mysqld/mysqld.sock"
        child = subprocess.Popen(
            ["mariadbd", "--no-defaults", "--user=root", f"--datadir={d}/mysql",
             f"--socket={sock}", "--skip-networking", f"--pid-file={d}/run/mysqld/pid",
             "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M", "--skip-log-bin",
             "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0",
             f"--log-error={d}/log/mariadbd.log"],
            env=self.env(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        self._write("run/mariadbd.pid", str(child.pid))
        wait_until(lambda: child.poll() is not None or self._connects(sock), 60, "MariaDB",
                   self._logs)
        if child.poll() is not None:
            raise RigError(f"mariadbd ended with {child.returncode}\n{self._logs()}")

    @staticmethod
    def _connects(path):
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(path)
                return True
            except OSError:
                return False

    def _start_slurmdbd(self):
        self.start("slurmdbd")
        wait_until(lambda: "rc=0" in self.run(
            "root", ["sh", "-c", "sacctmgr -n list cluster; echo rc=$?"]), 20, "slurmdbd",
            self._logs)

    # ---- stopping -----------------------------------------------------------------------------

    def daemons(self):
        names = ["munged", "mariadbd", "slurmdbd", "slurmctld"]
        names += [f"slurmd-{node}" for node in self.shape.nodes()]
        return [name for name in names if self.pid(name)]

    def down(self, remove=False):
        """Stops the jobs, then the daemons, then whatever the jobs left behind."""
        for name in self.daemons():
            os.kill(self.pid(name), signal.SIGCONT)
        if self.pid("slurmctld"):
            try:
                jobs = set(self.run("root", ["squeue", "-h", "-r", "-o", "%A"], timeout=5).split())
                if jobs:
                    self.run("root", ["scancel", *jobs], timeout=20, check=False)
                    wait_until(lambda: not self.run(
                        "root", ["squeue", "-h", "-t", "R,CG,S,CF"], timeout=5), 10, "the jobs")
            except RigError as e:
                print(f"slurm.py: {e}", file=sys.stderr)
        self._stop_daemons()
        if remove:
            shutil.rmtree(self.dir, ignore_errors=True)

    def _stop_daemons(self):
        for daemon in reversed(self.daemons()):
            self.stop(daemon)
        for _ in range(3):
            for pid in self.job_processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        if not self.shape.cgroups:
            return
        for node in self.shape.nodes():
            for hierarchy in os.listdir("/sys/fs/cgroup"):
                top = f"/sys/fs/cgroup/{hierarchy}/slurm_{node}"
                for folder, _, _ in os.walk(top, topdown=False):
                    try:
                        os.rmdir(folder)
                    except OSError:
                        pass  # busy: another cluster with the same node names


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = p.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up")
    up.add_argument("dir")
    up.add_argument("--port", type=int, default=0)
    up.add_argument("--accounting", action="store_true")
    up.add_argument("--cgroups", action="store_true")
    up.add_argument("--prefix", default="")
    up.add_argument("--root", default="")
    up.add_argument("--keep", action="store_true")
    up.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    verbs.add_parser("down").add_argument("dir")
    for verb in ("kill", "freeze", "thaw", "start", "lose-node"):
        v = verbs.add_parser(verb)
        v.add_argument("dir")
        v.add_argument("what")
    run_as = verbs.add_parser("as")
    run_as.add_argument("dir")
    run_as.add_argument("user")
    run_as.add_argument("command", nargs=argparse.REMAINDER)
    a = p.parse_args()
    try:
        if a.verb == "up":
            settings = dict(s.split("=", 1) for s in a.set)
            c = Cluster(a.dir, a.port, a.root, accounting=a.accounting, cgroups=a.cgroups,
                        prefix=a.prefix, settings=settings).up(a.keep)
            print(f"{time.monotonic() - c.started:.1f} s", file=sys.stderr)
            if c.root:
                print(f"export PATH={c.root}/berth:$PATH")
            print(f"export SLURM_CONF={c.conf}")
            return 0
        c = Cluster.load(a.dir)
        if a.verb == "as":
            return c.popen(a.user, a.command).wait()
        if a.verb == "down":
            c.down()
        else:
            getattr(c, a.verb.replace("-", "_"))(a.what)
        return 0
    except (RigError, OSError) as e:
        print(f"slurm.py: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
