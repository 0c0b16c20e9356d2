"""The directory of a measurement, the programs measured, and the clients that load them."""
import atexit
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import time

from table import progress

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB = 1 << 20
GIB = 1 << 30
# A server that uses a smaller fraction of a processor than this has no background work left.
IDLE = 0.03


class Absent(Exception):
    """A requirement of a group is missing."""


class Lab:
    def __init__(self, args):
        self.quick, self.repeats, self.seconds = args.quick, args.repeats, args.seconds
        base = args.dir or ("/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.base, self.large_base = base, args.large_dir or base
        self.dirs, self.servers, self.ends = [], [], []

    def __enter__(self):
        self.dir = self.new_dir(self.base)
        atexit.register(self.clean)
        return self

    def __exit__(self, *_):
        self.clean()

    def new_dir(self, base):
        self.dirs.append(tempfile.mkdtemp(prefix="sinew-bench.", dir=base))
        return self.dirs[-1]

    def at_end(self, end):
        """Has this called at the end, before what was there to be called already."""
        self.ends.append(end)

    def clean(self):
        for server in self.servers:
            server.kill()
        while self.ends:
            self.ends.pop()()
        for path in self.dirs:
            shutil.rmtree(path, ignore_errors=True)

    @staticmethod
    def built(variable, program, *options):
        """A program of the project; built with these options unless a variable gives its path."""
        if variable not in os.environ:
            build = ["cargo", "build", "--profile", "dist", "--quiet", *options, "--manifest-path", f"{ROOT}/Cargo.toml"]
            subprocess.run(build, check=True)
            target = os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target")
            os.environ[variable] = os.path.join(target, "dist", program)
        return os.environ[variable]

    @staticmethod
    def sinew():
        """The program under test."""
        return Lab.built("SINEW", "sinew", "-p", "sinew")

    @staticmethod
    def output(command):
        return subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0]

    def need(self, *tools):
        missing = [tool for tool in tools if not shutil.which(tool)]
        if missing:
            raise Absent(f"no {' or '.join(missing)}; `cargo xtask setup` installs the peers")

    def need_room(self, directory, count):
        """Files in memory count twice: as space of their file system and as memory."""
        stat = os.statvfs(directory)
        room = stat.f_bavail * stat.f_frsize
        if fs_type(directory) == "tmpfs":
            available = re.search(r"MemAvailable:\s*(\d+)", open("/proc/meminfo").read())
            room = min(room, int(available[1]) * 1024 - GIB)
        if room < count:
            raise Absent(f"needs {count / GIB:.1f} GiB in {directory}, and {max(room, 0) / GIB:.1f} are free")

    def interleave(self, samples):
        """Takes one sample of each contender per repeat: {name: function} becomes {name: [value]}."""
        taken = {name: [] for name in samples}
        for repeat in range(self.repeats):
            for name, take in samples.items():
                value = take()
                progress(f"   {repeat + 1}/{self.repeats}  {name}: {value:.4g}")
                taken[name].append(value)
        return taken

    def run(self, command, **kwargs):
        done = subprocess.run(command, capture_output=True, text=True, **kwargs)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def fio(self, *options, timed=True):
        """One fio job; returns its report, with the processor seconds of all its threads in `cpu_seconds`."""
        command = ["fio", "--name=bench", "--output-format=json", "--randrepeat=0", "--norandommap", "--thread"]
        if timed:
            ramp = 0.3 if self.quick else 1
            command += ["--time_based", f"--runtime={self.seconds}", f"--ramp_time={ramp}"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.monotonic()
        text = self.run(command + list(options), cwd=self.dir)
        elapsed = time.monotonic() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        job = json.loads(text[text.index("{"):])["jobs"][0]
        used = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
        job["processors"] = used / elapsed
        return job

    def bench(self, *options, cpus=None):
        """One `sinew bench`, on these processors only; returns its report."""
        pinned = ["taskset", "--cpu-list", cpus] if cpus else []
        return json.loads(self.run([*pinned, self.sinew(), "bench", "--json", f"--seconds={self.seconds}", *options]))

    def settle(self, server, patience=20):
        """Waits until a server has no background work left, or for this number of seconds."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            before = server.cpu_seconds()
            time.sleep(0.3)
            if (server.cpu_seconds() - before) / 0.3 < IDLE:
                return

    def start(self, command, at, errors="server.log"):
        server = Server(command, at, os.path.join(self.dir, errors))
        self.servers.append(server)
        return server

    def start_pool(self, directory, members, member_bytes, volume_bytes, *options, whole=False, faults=(), serve=()):
        """A new pool of files with one volume `v`, served with these options. All blocks of `whole` files are allocated from the start."""
        files = [f"{directory}/m{i}" for i in range(members)]
        for path in files if whole else []:
            with open(path, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, member_bytes)
        size = [] if whole else [f"--size={member_bytes // MIB}M"]
        self.run([self.sinew(), "pool", "create", "bench", *files, *size, f"--volume=v:{volume_bytes // MIB}M", *options])
        return self.serve_pool(directory, files, faults, serve)

    def start_array(self, directory, level, members, member_bytes, *options, faults=()):
        """A new array of files, served, with one shard and the volume `v`."""
        files = [f"{directory}/m{i}" for i in range(members)]
        size = f"--size={member_bytes // MIB}M"
        self.run([self.sinew(), "array", "create", "v", *files, f"--level={level}", size, "--shards=1", *options])
        return self.serve_pool(directory, files, faults)

    def serve_pool(self, directory, files, faults=(), options=()):
        sockets = [f"{directory}/nbd", f"{directory}/control"]
        for path in sockets:
            if os.path.exists(path):
                os.remove(path)
        command = [self.sinew(), "serve", *files, "--unix", sockets[0], "--control", sockets[1], *options]
        command += [f"--fault-member={fault}" for fault in faults]
        server = self.start(command, sockets[0])
        server.files, server.control, server.uri = files, sockets[1], f"nbd+unix:///v?socket={sockets[0]}"
        return server

    def status(self, server):
        """The state of a served pool, read directly from its control socket, so that no process delays the answer."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(server.control)
            control.sendall(b'"status"\n')
            return json.loads(control.makefile().readline())["ok"]

    def fill(self, uri):
        """Writes a served volume from end to end."""
        self.fio("--ioengine=nbd", f"--uri={uri}", "--rw=write", "--bs=1M", "--iodepth=4", timed=False)


class Server:
    """A program that serves on a socket."""

    def __init__(self, command, at, log):
        self.log = log
        self.began = time.monotonic()
        with open(log, "w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        while not os.path.exists(at):
            if self.process.poll() is not None:
                raise RuntimeError(f"{' '.join(command)}: ended: {open(log).read()[-2000:]}")
            time.sleep(0.0005)
        self.start_seconds = time.monotonic() - self.began

    def cpu_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def anonymous_bytes(self):
        """Resident memory without mapped files."""
        status = open(f"/proc/{self.process.pid}/status").read()
        return int(re.search(r"RssAnon:\s*(\d+)", status)[1]) * 1024

    def recovered(self):
        """Milliseconds and journal blocks that the server reports for its recovery; none if there was nothing to recover."""
        found = re.search(r"recovered in ([\d.]+) ms.*?(\d+) journal blocks", open(self.log).read())
        return (float(found[1]), int(found[2])) if found else (0.0, 0)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()


def fs_type(directory):
    """The type of the file system that contains a directory: that of the longest mount point above it."""
    path, best = os.path.realpath(directory), ("", "")
    for line in open("/proc/mounts"):
        point, kind = line.split()[1:3]
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]
