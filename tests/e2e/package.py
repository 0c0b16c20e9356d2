"""The part of a service manager in the test of the package: carries out the unit's own command with a socket for
notifications, its runtime directory, its umask and its filter of system calls, and then the same under the profile for
containers."""
import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

UNIT = "/usr/lib/systemd/system/sinew@.service"
PROFILE = "/usr/share/sinew/containers/seccomp.json"
POOL = "tank"
SOCKET = "/run/sinew/nbd/tank.sock"
URI = f"nbd+unix:///v?socket={SOCKET}"


def unit(key):
    """The last value of a key of the unit."""
    text = open(UNIT, encoding="utf-8").read()
    return re.findall(f"^{key}=(.*)$", text, re.MULTILINE)[-1].replace("%i", POOL)


def calls_of_group(group):
    """The system calls of a group of systemd's, as systemd itself lists them."""
    listed = subprocess.run(["systemd-analyze", "syscall-filter", group], check=True, capture_output=True, text=True).stdout
    names = set()
    for line in listed.splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            names |= calls_of_group(word)
        elif word and not word.startswith("#"):
            names.add(word)
    return names


def calls_of_profile():
    """The system calls that a container without further capabilities may make by the profile, with any arguments."""
    rules = json.load(open(PROFILE, encoding="utf-8"))["syscalls"]
    allowed = [rule for rule in rules if rule["action"] == "SCMP_ACT_ALLOW"]
    plain = [rule for rule in allowed if not rule.get("includes", {}).get("caps")]
    return {name for rule in plain for name in rule["names"]}


# clone3 has its arguments in memory, where a filter cannot look: Docker says that the kernel does not have it.
ABSENT = {"clone3": errno.ENOSYS}


def allow_only(names):
    """Limits this process to some system calls; others fail, as under systemd and in containers. Nothing where the library
    is missing."""
    try:
        import seccomp
    except ImportError:
        print("no python3-seccomp; system calls were not filtered", flush=True)
        return
    rules = seccomp.SyscallFilter(seccomp.ERRNO(1))
    for name, number in ABSENT.items() if "clone3" not in names else ():
        rules.add_rule(seccomp.ERRNO(number), name)
    for name in names:
        try:
            rules.add_rule(seccomp.ALLOW, name)
        except (RuntimeError, ValueError):
            pass  # A call of another processor.
    rules.load()


class Service:
    """A run of the unit's command."""

    def __init__(self, names):
        path = "/run/notify"
        if os.path.exists(path):
            os.unlink(path)
        self.messages = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.messages.bind(path)
        self.messages.settimeout(1)
        directory = f"/run/{unit('RuntimeDirectory')}"
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, int(unit("RuntimeDirectoryMode"), 8))
        # Before the child exists: a filter is passed on, so it is set between fork and exec.
        self.process = subprocess.Popen(
            unit("ExecStart").split(),
            env={"NOTIFY_SOCKET": path, "PATH": "/usr/bin:/bin"},
            umask=int(unit("UMask"), 8),
            preexec_fn=lambda: allow_only(names),
        )
        self.told = []

    def wait_for(self, word):
        began = time.monotonic()
        while word not in self.told:
            ended = self.process.poll() is not None
            try:
                self.told += self.messages.recv(4096).decode().splitlines()
            except TimeoutError:
                if ended or time.monotonic() - began > 60:
                    sys.exit(f"no {word} from the server, which said {self.told}; exit code {self.process.returncode}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.wait_for("STOPPING=1")
        code = self.process.wait(60)
        assert code == 0, f"the server ended with {code}"


def status():
    shown = subprocess.run(["sinew", "pool", "status", "--pool", POOL, "--json"], check=True, capture_output=True, text=True)
    return json.loads(shown.stdout)


def main():
    assert unit("Type") == "notify"
    data = os.urandom(8 << 20)
    open("/srv/data", "wb").write(data)

    service = Service(calls_of_group(unit("SystemCallFilter")))
    service.wait_for("READY=1")
    assert f"STATUS=serving pool {POOL}" in service.told, service.told
    state = status()
    assert state["health"] == "healthy", state
    assert state["policy"]["convert_below_free"] == 55, state["policy"]
    assert os.stat(SOCKET).st_mode & 0o777 == 0o666
    subprocess.run(["nbdcopy", "--", "/srv/data", URI], check=True)
    service.stop()
    assert not os.path.exists(SOCKET)

    # A member is missing at the next start: it is waited for, and then the pool is opened without it.
    os.rename("/srv/members/m3", "/srv/away")
    service = Service(calls_of_profile())
    service.wait_for("READY=1")
    waited = [line for line in service.told if line.startswith("STATUS=waiting for member 3")]
    assert waited and service.told.index(waited[0]) < service.told.index("READY=1"), service.told
    assert status()["members"][3]["state"] == "missing"
    subprocess.run(["nbdcopy", "--", URI, "/srv/back"], check=True)
    assert open("/srv/back", "rb").read(len(data)) == data, "the data differs"
    service.stop()

    # It is back at the next start, while the others are waited for no longer than needed.
    service = Service(calls_of_group(unit("SystemCallFilter")))
    service.wait_for("STATUS=waiting for member 3 (last seen at /srv/members/m3) of pool tank")
    os.rename("/srv/away", "/srv/members/m3")
    service.wait_for("READY=1")
    assert status()["members"][3]["state"] == "active"
    service.stop()

    for wrong, expected in [("pol = 1", "unknown field"), ("pool = 'none'\nwait = '0s'", "no member of pool none")]:
        open("/srv/wrong.toml", "w", encoding="utf-8").write(wrong)
        refused = subprocess.run(["sinew", "serve", "--config", "/srv/wrong.toml"], capture_output=True, text=True)
        assert refused.returncode == 1 and expected in refused.stderr, refused


main()
