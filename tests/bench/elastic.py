"""Elastic arrays on four zram devices: members that really compress. The forms of stripes, shares of them, conversion."""
import json
import os
import subprocess
import time

from lab import MIB, Absent
from table import compare, progress, single

# Of each zram, by lz4. Pieces of content are random or copied, so that parity of them hardly compresses, as with real data.
RATIO = 0.5
DEPTH = 32
SHARES = (0, 20, 60, 100)
# Parts of the stripes that have room as mirrors, where the governor finds the share.
GOVERNED = (0.3, 0.7)
# Seconds after which the governor is at rest: ten samples before it begins, and its conversions.
REST = 15


def elastic(lab):
    """Shares are set by hand, but for the rows of the governor. Each repeat goes through all shares and back: what is compared lies
    seconds apart, on the same data."""
    lab.need("fio", "nbdcopy")
    if os.geteuid() != 0 or not os.path.exists("/sys/class/zram-control/hot_add"):
        raise Absent("needs zram, and root")
    size = (128 if lab.quick else 512) * MIB
    lab.need_room(lab.dir, 8 * size)
    array = Array(lab, size)
    raw, = zrams(lab, 1, size)
    taken = []
    for repeat in range(lab.repeats):
        progress(f"   {repeat + 1}/{lab.repeats}  elastic")
        taken.append({"raw": sequential(lab, raw), **array.sample()})
    try:
        lab.need("mkfs.btrfs")
        rival = Btrfs(lab, size, array.content())
        for repeat, sample in enumerate(taken):
            progress(f"   {repeat + 1}/{lab.repeats}  btrfs")
            sample |= rival.sample()
    except Absent as absent:
        progress(f"   without btrfs: {absent}")
    return rows(taken)


def rows(taken):
    def row(name, unit, mine, peer, mark=None, note=""):
        if any(key not in sample for sample in taken for key in (mine, peer)):
            return None
        samples = {key: [sample[key] for sample in taken] for key in (mine, peer)}
        return compare("elastic", name, unit, samples, mine, peer, mark, note=note)

    for sample in taken:
        ours, parity = sample["write, 100 % mirrored"], sample["write, 0 % mirrored"]
        for share in SHARES[1:-1]:
            part = share / 100
            sample[f"one population, {share} %"] = 1 / (part / ours + (1 - part) / parity)
            sample[f"two populations, {share} %"] = part * ours + (1 - part) * parity
    laws = [
        row(f"random write 4 KiB, {share} % mirrored", "IOPS", f"write, {share} % mirrored", f"{law}, {share} %", mark)
        for share in SHARES[1:-1]
        for law, mark in (("one population", ("at least", 1)), ("two populations", ("at most", 1)))
    ]
    beside = [
        row(f"random write 4 KiB beside conversion to {form}, {what}", unit, f"{key} beside conversion to {form}", f"{key} alone", mark,
            "over NBD; 2 % of the clients' rate is converted")
        for form in ("mirrors", "parity")
        for what, unit, key, mark in (("rate", "IOPS", "rate", ("at least", 0.95)), ("p99.9", "us", "p99.9", ("at most", 1.2)))
    ]
    found = [
        row("random write 4 KiB, all mirrored", "IOPS", "write, 100 % mirrored", "write, 0 % mirrored", ("at least", 1.6)),
        row("random read 4 KiB with a member out, all mirrored", "IOPS", "degraded read, 100 % mirrored", "degraded read, 0 % mirrored",
            ("at least", 1.5)),
        *laws,
        row("conversion to mirrors", "bytes/s", "to mirrors", "raw", ("at least", 0.5), "beside sequential writes to one member"),
        row("conversion to parity", "bytes/s", "to parity", "raw", ("at least", 0.5), "likewise"),
        row("conversion to mirrors", "bytes/s", "to mirrors", "balance to raid10", ("at least", 5)),
        row("conversion to parity", "bytes/s", "to parity", "balance to raid5", ("at least", 5)),
        *beside,
        row("physical space after all stripes were mirrored", "bytes", "used at the end", "used at the beginning", ("at most", 1.03)),
    ]
    governed = [
        single("elastic", f"share found by the governor, {100 * part:g} % by the closed form", "points off",
               [abs(sample[f"share, {part}"] - 100 * part) for sample in taken], ("at most", 5))
        for part in GOVERNED
    ]
    return [*[row for row in found if row], *governed]


def zrams(lab, count, size):
    """New zram devices; they are removed at the end."""
    found = []
    for _ in range(count):
        number = open("/sys/class/zram-control/hot_add").read().strip()
        lab.at_end(lambda number=number: remove(number))
        for name, value in (("comp_algorithm", "lz4"), ("disksize", str(size))):
            with open(f"/sys/block/zram{number}/{name}", "w") as file:
                file.write(value)
        until(lambda number=number: os.path.exists(f"/dev/zram{number}"))
        found.append(f"/dev/zram{number}")
    return found


def remove(number):
    for path, value in ((f"/sys/block/zram{number}/reset", "1"), ("/sys/class/zram-control/hot_remove", number)):
        with open(path, "w") as file:
            file.write(value)


def used(device):
    """Bytes of memory that a zram takes, without those that its allocator has free in between."""
    block = f"/sys/block/{os.path.basename(device)}"
    with open(f"{block}/compact", "w") as file:
        file.write("1")
    return int(open(f"{block}/mm_stat").read().split()[2])


def limit_to(device, limit):
    """Sets the memory that a zram may take; 0 is no limit."""
    with open(f"/sys/block/{os.path.basename(device)}/mem_limit", "w") as file:
        file.write(str(int(limit)))


def until(done, patience=120, pause=0.005):
    end = time.monotonic() + patience
    while not done():
        if time.monotonic() > end:
            raise RuntimeError("it takes too long")
        time.sleep(pause)


def sequential(lab, device):
    """Bytes per second of sequential writes."""
    job = lab.fio("--ioengine=io_uring", f"--filename={device}", "--direct=1", "--rw=write", "--bs=1M", "--iodepth=8",
                  f"--buffer_compress_percentage={100 * (1 - RATIO):.0f}", "--refill_buffers=1")
    return job["write"]["bw_bytes"]


class Array:
    """A RAID 5 with elastic stripes, full of content."""

    def __init__(self, lab, size):
        self.lab, self.timed = lab, ("--duration", str(lab.seconds))
        self.members = zrams(lab, 4, size)
        self.all, self.rest = self.directory(self.members), self.directory(self.members[:-1])
        lab.run([lab.sinew(), "array", "create", "v", *self.members, "--level=5", "--elastic", f"--expect={1 / RATIO:g}",
                 "--assume-zeroed", "--shards=1"])
        server = self.serve()
        self.bytes = lab.status(server)["volumes"][0]["bytes"]
        server.stop()
        self.replay("write", "sequential", MIB, "--limit", str(self.bytes // MIB), depth=4)
        self.share(0)

    def directory(self, members):
        path = self.lab.new_dir(self.lab.base)
        for member in members:
            os.symlink(member, f"{path}/{os.path.basename(member)}")
        return path

    def serve(self):
        return self.lab.serve_pool(self.all, self.members)

    def content(self):
        """A copy of all content, in memory."""
        server, path = self.serve(), f"{self.lab.dir}/content"
        self.lab.run(["nbdcopy", server.uri, path])
        server.stop()
        return path

    def replay(self, kind, place, request_bytes, *options, depth=DEPTH, target=None):
        """The report of a load, in the process of the engine unless the target is served."""
        path = f"{self.lab.dir}/load.toml"
        with open(path, "w") as file:
            file.write(f'[source.generator]\nseed = 1\narrival = "closed"\n[[source.generator.streams]]\nkind = "{kind}"\nshare = 1.0\n'
                       f'sizes.choice = [{{ bytes = {request_bytes}, weight = 1 }}]\nplace = "{place}"\nfootprint = {self.bytes}\n')
        command = [self.lab.sinew(), "replay", target or self.all, path, f"--closed={depth}", f"--compressible={RATIO}", "--json"]
        return json.loads(self.lab.run([*command, *options]))["report"]["kinds"][kind]

    def share(self, percent):
        """Sets the share; returns the bytes of content converted per second."""
        server = self.serve()
        mirrored = lambda: self.lab.status(server)["stripes"]["mirrored"]
        stripes = self.lab.status(server)["stripes"]
        all_stripes = stripes["mirrored"] + stripes["parity"]
        wanted, before = round(all_stripes * percent / 100), stripes["mirrored"]
        began = time.monotonic()
        self.order(server, "share", str(percent))
        until(lambda: abs(mirrored() - wanted) <= (0 if percent in (0, 100) else 1 + all_stripes // 500))
        rate = abs(wanted - before) / all_stripes * self.bytes / (time.monotonic() - began)
        self.lab.settle(server)
        server.stop()
        return rate

    def order(self, server, *words):
        self.lab.run([self.lab.sinew(), "array", *words, "--control", server.control])

    def beside(self):
        """Clients' writes alone, and while a part of what they write is converted: at 200 MB/s the paper converts 2 % of what
        its clients write (Elastic RAID, figures 12 and 13)."""
        server, found = self.serve(), {}

        def load(when):
            report = self.replay("write", "uniform", 4096, *self.timed, target=server.uri)
            found[f"rate {when}"], found[f"p99.9 {when}"] = report["iops"], report["latency"]["p99_9_ns"] / 1000

        load("alone")
        for share, form in ((100, "mirrors"), (0, "parity")):
            self.order(server, "policy", f"--convert-rate={max(int(found['rate alone'] * 4096 / 50), MIB)}")
            self.order(server, "share", str(share))
            load(f"beside conversion to {form}")
            self.order(server, "policy", "--convert-rate=none")
            self.lab.settle(server)
        server.stop()
        return found

    def sample(self):
        found = {}
        for share in SHARES:
            if share:
                # After the writes before, so that the journal is as full as at the end.
                found.setdefault("used at the beginning", sum(map(used, self.members)))
                self.share(share)
            found[f"write, {share} % mirrored"] = self.replay("write", "uniform", 4096, *self.timed)["iops"]
            if share in (0, 100):
                report = self.replay("read", "uniform", 4096, *self.timed, target=self.rest)
                found[f"degraded read, {share} % mirrored"] = report["iops"]
        found["to parity"] = self.share(0)
        found["used at the end"] = sum(map(used, self.members))
        found["to mirrors"] = self.share(100)
        found["used by mirrors"] = sum(map(used, self.members))
        self.share(0)
        for part in GOVERNED:
            found[f"share, {part}"] = self.governed(part, found["used at the end"], found["used by mirrors"])
        return found | self.beside()

    def governed(self, part, least, most):
        """The share of mirrored stripes in percent that the governor finds, on members with a limit of which they use 80 %, its lower
        limit, with this part of the stripes mirrored, by what they use with all stripes with parity and with all mirrored."""
        for member in self.members:
            limit_to(member, (least + part * (most - least)) / 0.80 / len(self.members))
        server = self.serve()
        self.order(server, "policy", "--low=80", "--high=90", "--interval=250ms")
        self.order(server, "share", "none")
        # Only stripes in use become mirrored.
        self.replay("read", "uniform", 4096, "--duration", str(REST), target=server.uri, depth=4)
        stripes = self.lab.status(server)["stripes"]
        self.order(server, "policy", "--interval=1s")
        server.stop()
        self.share(0)
        for member in self.members:
            limit_to(member, 0)
        return 100 * stripes["mirrored"] / (stripes["mirrored"] + stripes["parity"])


class Btrfs:
    """btrfs on four zram devices, with the content of the array in one file."""

    def __init__(self, lab, size, content):
        self.lab, self.mount, self.bytes = lab, lab.new_dir(lab.base), os.path.getsize(content)
        # It converts in chunks of a fixed size, for which small devices have no room.
        self.devices = zrams(lab, 4, 4 * size)
        lab.run(["mkfs.btrfs", "--quiet", "--force", "--data", "raid5", "--metadata", "raid1", *self.devices])
        lab.run(["mount", "-o", "noatime,nodatacow", self.devices[0], self.mount])
        lab.at_end(lambda: subprocess.run(["umount", self.mount], check=False))
        lab.run(["dd", f"if={content}", f"of={self.mount}/file", "bs=1M", "conv=fsync", "status=none"])

    def sample(self):
        return {f"balance to {profile}": self.balance(profile) for profile in ("raid10", "raid5")}

    def balance(self, profile):
        """Bytes of content converted per second; read from the devices, not from memory."""
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("1")
        began = time.monotonic()
        self.lab.run(["btrfs", "balance", "start", f"-dconvert={profile}", self.mount])
        self.lab.run(["sync", "-f", self.mount])
        return self.bytes / (time.monotonic() - began)
