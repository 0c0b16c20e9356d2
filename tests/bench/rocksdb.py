"""RocksDB on ext4 over a served volume with two members that have latency spikes: FusionRAID's table 5 and figure 11(a)."""
import contextlib
import os
import re
import subprocess
import time

from lab import GIB, MIB, Absent
from table import compare, progress

MEMBERS = 8
# The same for all contenders: two members, so that a stripe of RAID 50 often contains one.
SPIKES = ["2:spikes,period=200ms,length=50ms,height=20ms", "5:spikes,period=230ms,length=50ms,height=20ms"]
# Name, updates in percent, and the paper's milliseconds (RAID 50, FusionRAID) for the slowest 10 % and 1 %.
WORKLOADS = [
    ("load", 100, {"update": [(32.55, 4.22), (232.17, 29.25)]}),
    ("a", 50, {"read": [(0.92, 0.753), (2.4, 1.924)], "update": [(9.2, 2.35), (63.13, 11.80)]}),
    ("b", 5, {"read": [(0.66, 0.47), (1.81, 1.55)], "update": [(5.17, 1.27), (34.34, 5.86)]}),
]
TAILS = [0.1, 0.01]
# The loads whose distribution of updates figure 11(a) draws.
DRAWN = ["load", "a"]
QUANTILES = [0.5, 0.9, 0.99, 0.999]


def rocksdb(lab):
    """A mapped pool compared with RAID 50, without a journal as in the paper, and with a journal."""
    lab.need("db_bench", "nbdfuse", "losetup", "mkfs.ext4")
    if os.geteuid() != 0:
        raise Absent("not root: a loop device cannot be set up")
    member = (128 if lab.quick else 384) * MIB
    lab.need_room(lab.dir, MEMBERS * member + GIB)
    contenders = {
        "pool": lambda directory: lab.start_pool(directory, MEMBERS, member, MEMBERS * member // 2, "--shards=1", faults=SPIKES),
        "RAID 50": lambda directory: lab.start_array(directory, "raid50", MEMBERS, member, "--no-journal", faults=SPIKES),
        "RAID 50 with journal": lambda directory: lab.start_array(directory, "raid50", MEMBERS, member, faults=SPIKES),
    }
    taken = {name: [] for name in contenders}
    for repeat in range(lab.repeats):
        for name, start in contenders.items():
            directory = lab.new_dir(lab.base)
            server = start(directory)
            try:
                taken[name].append(run(lab, directory, server))
            finally:
                server.kill()
                for file in server.files:
                    os.remove(file)
            shown = ", ".join(f"{key}: {value:.3g}" for key, value in taken[name][-1].items())
            progress(f"   {repeat + 1}/{lab.repeats}  {name}: {shown}")
    return list(rows(taken))


def rows(taken):
    for workload, updates, published in WORKLOADS:
        for kind, figures in published.items():
            for tail, (raid50, fusion) in zip(TAILS, figures):
                key = f"{workload} {kind} {tail}"
                note = f"paper: FusionRAID {fusion:g}, RAID 50 {raid50:g}, ratio {fusion / raid50:.2f}"
                row = f"YCSB-{workload}-like, {updates} % updates: {kind}s, slowest {tail:.0%}"
                yield from beside_peers(taken, key, row, mark=("at most", 1), note=note)
        for share in QUANTILES if workload in DRAWN else []:
            row = f"YCSB-{workload}-like: updates, p{share * 100:g}"
            yield from beside_peers(taken, f"{workload} update p{share}", row, note="figure 11(a), which has no numbers")


def beside_peers(taken, key, row, **how):
    samples = {name: [sample[key] for sample in each] for name, each in taken.items()}
    return [compare("rocksdb", row, "ms", samples, "pool", peer, **how) for peer in samples if peer != "pool"]


def run(lab, directory, server):
    """Loads a database, then reads and updates it; returns the mean milliseconds of the slowest operations, and operations per second."""
    found = {}
    keys = 10_000 if lab.quick else 80_000
    with mounted(lab, directory, server) as place:
        for workload, updates, published in WORKLOADS:
            # Each load starts after the compaction of the previous one has ended.
            kind = ["--benchmarks=fillrandom,waitforcompaction"] if updates == 100 else [
                "--benchmarks=readrandomwriterandom,waitforcompaction", "--use_existing_db=1", f"--readwritepercent={100 - updates}",
                f"--duration={lab.seconds:g}"]
            # Keys and values have the paper's size. Buffers are small like the database, and reads bypass the page cache, so
            # that the volume gets as many requests as from a database that is larger than memory.
            text = lab.run(["db_bench", f"--db={place}/db", f"--num={keys}", "--value_size=4096", "--threads=2", "--histogram",
                            "--compression_type=none", "--use_direct_reads", "--use_direct_io_for_flush_and_compaction",
                            "--cache_size=8388608", f"--write_buffer_size={8 * MIB}", f"--target_file_size_base={8 * MIB}",
                            f"--max_bytes_for_level_base={32 * MIB}", f"--seed={len(found) + 1}", *kind])
            for of in published:
                histogram = buckets(text, {"read": "read", "update": "write"}[of])
                for tail in TAILS:
                    found[f"{workload} {of} {tail}"] = slowest(histogram, tail) / 1000
                for share in QUANTILES if of == "update" else []:
                    found[f"{workload} {of} p{share}"] = quantile(histogram, share) / 1000
            found[f"{workload} operations/s"] = float(re.search(r"random +:.*?(\d+) ops/sec", text)[1])
    return found


def buckets(text, kind):
    """db_bench's histogram of one kind of operation: [(from, to, count)] in microseconds."""
    part = re.search(rf"Microseconds per {kind}:\n(.*?)(?:\n\n|\nMicroseconds|\Z)", text, re.S)
    if not part:
        raise RuntimeError(f"db_bench gave no histogram of {kind}s:\n{text[-2000:]}")
    most = float(re.search(r"Max: ([\d.]+)", part[1])[1])
    lines = re.findall(r"[\[(]\s*([\d.]+),\s*([\d.]+)\s*[\])]\s+(\d+)", part[1])
    # The last bucket ends at the longest operation.
    return [(float(a), min(float(b), most), int(count)) for a, b, count in lines]


def slowest(histogram, part):
    """Mean of the slowest fraction, as if each bucket were evenly filled; a bucket is half as wide as its lower bound."""
    left = wanted = sum(count for *_, count in histogram) * part
    total = 0.0
    for low, high, count in reversed(histogram):
        take = min(count, left)
        # The upper part of the bucket that belongs to the slowest fraction.
        total += take * (high - (high - low) * take / count / 2)
        left -= take
        if left <= 0:
            break
    return total / wanted


def quantile(histogram, share):
    """The value that this fraction of the operations did not exceed, with the same assumption."""
    left = sum(count for *_, count in histogram) * share
    for low, high, count in histogram:
        if left <= count:
            return low + (high - low) * left / count
        left -= count
    return histogram[-1][1]


@contextlib.contextmanager
def mounted(lab, directory, server):
    """ext4 on a loop device on a file that nbdfuse makes of the volume."""
    fuse, place = f"{directory}/fuse", f"{directory}/mnt"
    os.mkdir(fuse)
    os.mkdir(place)
    client = subprocess.Popen(["nbdfuse", f"{fuse}/disk", server.uri], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    loop = None
    try:
        until = time.monotonic() + 10
        while not os.path.exists(f"{fuse}/disk"):
            if time.monotonic() > until or client.poll() is not None:
                raise RuntimeError(f"nbdfuse does not come up on {server.uri}")
            time.sleep(0.05)
        loop = lab.run(["losetup", "--find", "--show", "--direct-io=on", "--sector-size=4096", f"{fuse}/disk"]).strip()
        lab.run(["mkfs.ext4", "-q", "-F", "-E", "nodiscard", loop])
        lab.run(["mount", "-o", "noatime", loop, place])
        yield place
    finally:
        if os.path.ismount(place):
            lab.run(["umount", place])
        if loop:
            lab.run(["losetup", "--detach", loop])
        if os.path.ismount(fuse):
            lab.run(["umount", fuse])
        client.wait(timeout=30)
