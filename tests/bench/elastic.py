"""Elastic arrays on four zram devices: members that really compress. The forms of stripes, shares of them, conversion, the governor, and
rivals."""
import os
import subprocess
import time

import elastic_md
import governed
from elastic_array import RATIO, Array
from lab import MIB, Absent
from table import compare, progress
from zram import used, zrams

SHARES = (0, 20, 60, 100)
# Percent of writes beside reads.
MIXES = (70, 50, 30)
# Percent of the clients' rate that is converted beside them: 100, 200 and 400 MB/s by the paper's 2.47 M reads of 4 KiB a second.
CONVERTED = (1, 2, 4)


def elastic(lab):
    """Shares are set by hand, but for the rows of the governor. Each repeat goes through all shares and back: what is compared lies
    seconds apart, on the same data."""
    lab.need("fio", "nbdcopy", "taskset")
    if os.geteuid() != 0 or not os.path.exists("/sys/class/zram-control/hot_add"):
        raise Absent("needs zram, and root")
    size = (128 if lab.quick else 512) * MIB
    lab.need_room(lab.dir, 20 * size)
    array = Array(lab, size)
    # btrfs converts on all processors.
    pair = Array(lab, size, shards=2)
    pair.share(100)
    raw, = zrams(lab, 1, size)
    content = array.content()
    try:
        lab.need("linux.uml", "modprobe", "mdadm")
        md = elastic_md.Rival(lab, size, raw, content)
    except Absent as absent:
        progress(f"   without md: {absent}")
        md = None
    taken = []
    for repeat in range(lab.repeats):
        progress(f"   {repeat + 1}/{lab.repeats}  elastic")
        taken.append(sample(array, md))
        taken[-1] |= {f"to {form}, two shards": pair.share(share) for form, share in (("parity", 0), ("mirrors", 100))}
        if md:
            progress(f"   {repeat + 1}/{lab.repeats}  md")
            taken[-1] |= md.sample()
        taken[-1]["raw"] = sequential(lab, raw)
    try:
        lab.need("mkfs.btrfs")
        rival = Btrfs(lab, size, content)
        for repeat, of_repeat in enumerate(taken):
            progress(f"   {repeat + 1}/{lab.repeats}  btrfs")
            of_repeat |= rival.sample()
    except Absent as absent:
        progress(f"   without btrfs: {absent}")
    return rows(taken)


def rows(taken):
    def row(name, unit, mine, peer, mark=None, note=""):
        if any(key not in sample for sample in taken for key in (mine, peer)):
            return None
        samples = {key: [sample[key] for sample in taken] for key in (mine, peer)}
        return compare("elastic", name, unit, samples, mine, peer, mark, note=note)

    loads = {"write": "random write 4 KiB", "degraded read": "random read 4 KiB with a member out"}
    for sample in taken:
        for load in loads:
            ours, parity = sample[f"{load}, 100 % mirrored"], sample[f"{load}, 0 % mirrored"]
            for share in SHARES[1:-1]:
                part = share / 100
                sample[f"{load}, one population, {share} %"] = 1 / (part / ours + (1 - part) / parity)
                sample[f"{load}, two populations, {share} %"] = part * ours + (1 - part) * parity
    laws = [
        row(f"{name}, {share} % mirrored", "IOPS", f"{load}, {share} % mirrored", f"{load}, {law}, {share} %", mark)
        for load, name in loads.items()
        for share in SHARES[1:-1]
        for law, mark in (("one population", ("at least", 1)), ("two populations", ("at most", 1)))
    ]
    forms = [
        row(f"random {load}, all mirrored", "IOPS", f"{load}, 100 % mirrored", f"{load}, 0 % mirrored", None, note)
        for load, note in (("read 4 KiB", "the paper has 1.05 (table 3)"),
                           ("reads of 4 KiB beside 70 % writes", "the paper has 1.16 (figure 6)"),
                           ("reads of 4 KiB beside 50 % writes", "figure 6"),
                           ("reads of 4 KiB beside 30 % writes", "the paper has 1.03 (figure 6)"))
    ]
    beside = [
        row(f"random write 4 KiB beside conversion to {form} at {percent} %, {what}", unit,
            f"{key} beside conversion to {form} at {percent} %", f"{key} alone", mark if percent == 2 else None,
            "over NBD; converted is this part of the clients' rate")
        for form in ("mirrors", "parity")
        for percent in CONVERTED
        for what, unit, key, mark in (("rate", "IOPS", "rate", ("at least", 0.95)), ("p99.9", "us", "p99.9", ("at most", 1.2)))
    ]
    found = [
        row("random write 4 KiB, all mirrored", "IOPS", "write, 100 % mirrored", "write, 0 % mirrored", ("at least", 1.6)),
        row("random read 4 KiB with a member out, all mirrored", "IOPS", "degraded read, 100 % mirrored", "degraded read, 0 % mirrored",
            ("at least", 1.5)),
        *forms,
        *laws,
        row("conversion to mirrors", "bytes/s", "to mirrors", "raw", ("at least", 0.5), "beside sequential writes to one member"),
        row("conversion to parity", "bytes/s", "to parity", "raw", ("at least", 0.5), "likewise"),
        row("conversion to mirrors, two shards", "bytes/s", "to mirrors, two shards", "balance to raid10", ("at least", 5),
            "two processors each"),
        row("conversion to parity, two shards", "bytes/s", "to parity, two shards", "balance to raid5", ("at least", 5), "likewise"),
        *beside,
        row("physical space after all stripes were mirrored", "bytes", "used at the end", "used at the beginning", ("at most", 1.03)),
    ]
    return [row for row in found + governed.rows(taken, row) + elastic_md.rows(taken) if row]


def sequential(lab, device):
    """Bytes per second of sequential writes."""
    job = lab.fio("--ioengine=io_uring", f"--filename={device}", "--direct=1", "--rw=write", "--bs=1M", "--iodepth=8",
                  f"--buffer_compress_percentage={100 * (1 - RATIO):.0f}", "--refill_buffers=1")
    return job["write"]["bw_bytes"]


def sample(array, md):
    found = {}
    for share in SHARES:
        if share:
            # After the writes before, so that the journal is as full as at the end.
            found.setdefault("used at the beginning", sum(map(used, array.members)))
            array.share(share)
        found[f"write, {share} % mirrored"] = array.replay("write", "uniform", 4096, *array.timed)["iops"]
        if share in (0, 100):
            found |= md.ours(array, "mirrored" if share else "parity") if md else {}
            found[f"read 4 KiB, {share} % mirrored"] = array.replay("read", "uniform", 4096, *array.timed)["iops"]
            for percent in MIXES:
                mixed = array.replay("read", "uniform", 4096, *array.timed, writes=percent / 100)
                found[f"reads of 4 KiB beside {percent} % writes, {share} % mirrored"] = mixed["iops"]
        report = array.replay("read", "uniform", 4096, *array.timed, target=array.rest)
        found[f"degraded read, {share} % mirrored"] = report["iops"]
    found["to parity"] = array.share(0)
    found["used at the end"] = sum(map(used, array.members))
    found["to mirrors"] = array.share(100)
    found["used by mirrors"] = sum(map(used, array.members))
    array.share(0)
    least = found["used at the end"]
    found |= governed.sample(array, least, found["used by mirrors"], found["used at the beginning"] - least)
    return found | beside(array)


def beside(array):
    """Clients' writes alone, and while as much as a part of what they write is converted (Elastic RAID, figures 12 and 13)."""
    server, found = array.serve(), {}

    def load(when):
        report = array.replay("write", "uniform", 4096, *array.timed, target=server.uri)
        found[f"rate {when}"], found[f"p99.9 {when}"] = report["iops"], report["latency"]["p99_9_ns"] / 1000

    load("alone")
    for percent in CONVERTED:
        for share, form in ((100, "mirrors"), (0, "parity")):
            array.order(server, "policy", f"--convert-rate={max(int(found['rate alone'] * 4096 * percent / 100), MIB)}")
            array.order(server, "share", str(share))
            load(f"beside conversion to {form} at {percent} %")
            array.order(server, "policy", "--convert-rate=none")
            array.lab.settle(server)
    server.stop()
    return found


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
