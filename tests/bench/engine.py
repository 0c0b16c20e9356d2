"""The engine without a network protocol: `sinew bench`, compared with fio on the same members, and with itself."""
import os
import statistics
from concurrent.futures import ThreadPoolExecutor

from lab import GIB, MIB, Absent
from table import compare, single

MEMBERS = 8
# Eight members with parity1 and the default width: six data columns and one of parity.
AFTER_PARITY = 6 / 7


def members(lab):
    """One shard on eight files, compared with one fio job on the same files. Every sample has a new pool; what was written to the
    files stays allocated."""
    lab.need("fio")
    size = (128 if lab.quick else 256) * MIB
    lab.need_room(lab.dir, MEMBERS * size + GIB // 2)
    files = [f"{lab.dir}/member{i}" for i in range(MEMBERS)]
    raw = ["--ioengine=io_uring", f"--filename={':'.join(files)}", f"--filesize={size}", f"--size={MEMBERS * size}"]
    lab.fio(*raw, "--rw=write", "--bs=1M", "--iodepth=4", timed=False)
    use = {}

    def ours(name, *options, value="iops"):
        def take():
            report = lab.bench(*files, "--force", "--protection=parity1", "--shards=1", *options)
            use.setdefault(name, []).append(report["cpu"])
            return report[value]
        return take

    def theirs(name, rw, bs, depth, value, service="random"):
        def take():
            job = lab.fio(*raw, f"--rw={rw}", f"--bs={bs}", f"--iodepth={depth}", f"--file_service_type={service}")
            use.setdefault(name, []).append(job["processors"])
            side = job[rw.removeprefix("rand")]
            return side["iops"] if value == "iops" else side["bw_bytes"] / 1e6
        return take

    def note(kind):
        # Kernel threads read and write files in memory; their processor time counts too.
        mine, peer = (max(use[f"{program} {kind}"]) for program in ("sinew", "fio"))
        return f"processors used: Sinew up to {mine:.2f}, fio {peer:.2f}"

    samples = lab.interleave({
        "sinew read": ours("sinew read", "--rw=randread", "--depth=32"),
        "fio read": theirs("fio read", "randread", "4k", 32, "iops"),
        "sinew write": ours("sinew write", "--rw=randwrite", "--depth=32", "--fill"),
        "fio write": theirs("fio write", "randwrite", "4k", 32, "iops"),
        "sinew sequential": ours("sinew sequential", "--rw=write", "--bs=1M", "--depth=8", value="mb_per_second"),
        "fio sequential": theirs("fio sequential", "write", "1M", 8, "mb", "roundrobin"),
    })
    return [
        compare("members", "random read 4 KiB, depth 32", "IOPS", samples, "sinew read", "fio read", ("at least", 0.8), note=note("read")),
        compare("members", "random write 4 KiB, depth 32", "IOPS", samples, "sinew write", "fio write", ("at least", 0.3), note=f"aim 0.4; {note('write')}"),
        compare("members", "sequential write 1 MiB, depth 8", "MB/s", samples, "sinew sequential", "fio sequential", ("at least", 0.7),
                scale=AFTER_PARITY, note=f"peer: 6/7 of raw; {note('sequential')}"),
    ]


def in_memory(lab, *options):
    size = 128 if lab.quick else 256
    lab.need_room("/dev/shm", MEMBERS * size * MIB + GIB // 2)
    return lab.bench("--memory", f"--members={MEMBERS}", f"--size={size}M", "--protection=parity1", *options)


def memory(lab):
    """Members in the memory of the process, one core: the cost of the engine itself."""
    reports = {}

    def sample(rw, depth):
        def take():
            report = in_memory(lab, f"--rw={rw}", f"--depth={depth}", "--shards=1", "--fill")
            reports.setdefault((rw, depth), []).append(report)
            return report["iops"]
        return take

    kinds = [(rw, depth) for depth in (1, 32) for rw in ("randread", "randwrite")]
    taken = lab.interleave({kind: sample(*kind) for kind in kinds})
    rows = []
    for (rw, depth), values in taken.items():
        aim = ("at least", 1e6) if (rw, depth) == ("randwrite", 32) else None
        per = {
            unit: statistics.median(report["device_per_request"][unit] for report in reports[rw, depth])
            for unit in ("reads", "writes")
        }
        ns = statistics.median(report["ns_per_request"] for report in reports[rw, depth])
        note = f"{ns:.0f} ns, {per['reads']:.2g} member reads and {per['writes']:.2g} member writes per request"
        rows.append(single("memory", f"{rw} 4 KiB, depth {depth}", "IOPS", values, aim, f"the mark is an aim; {note}" if aim else note))
    return rows


def shards(lab):
    """One core compared with two, and with two processes of one shard each, which share only the machine."""
    if len(os.sched_getaffinity(0)) < 2:
        raise Absent("needs two processors")

    def one_process(rw, count, depth=64):
        return in_memory(lab, f"--rw={rw}", f"--depth={depth}", f"--shards={count}", "--fill")["iops"]

    def two_processes(rw):
        with ThreadPoolExecutor() as both:
            return sum(both.map(lambda _: one_process(rw, 1, 32), range(2)))

    contenders = {}
    for rw in ("randread", "randwrite"):
        contenders[f"{rw}, 2 shards"] = lambda rw=rw: one_process(rw, 2)
        contenders[f"{rw}, 1 shard"] = lambda rw=rw: one_process(rw, 1)
        contenders[f"{rw}, 2 processes"] = lambda rw=rw: two_processes(rw)
    samples = lab.interleave(contenders)
    return [
        compare("shards", f"{rw} 4 KiB, depth 64, two shards", "IOPS", samples, f"{rw}, 2 shards", f"{rw}, {peer}")
        for rw in ("randread", "randwrite") for peer in ("1 shard", "2 processes")
    ]


def checksums(lab):
    """A pool with checksums compared with one without: speed, and memory of the tables for the same volume."""
    tables = {"with": [], "without": []}

    def sample(rw, which):
        def take():
            options = ["--no-checksums"] if which == "without" else []
            report = in_memory(lab, f"--rw={rw}", "--depth=32", "--shards=1", "--fill", *options)
            if rw == "randread":
                tables[which].append(report["table_bytes"])
            return report["iops"]
        return take

    samples = lab.interleave({f"{rw} {which}": sample(rw, which) for rw in ("randread", "randwrite") for which in ("with", "without")})
    rows = [
        compare("checksums", f"{rw} 4 KiB, depth 32", "IOPS", samples, f"{rw} with", f"{rw} without")
        for rw in ("randread", "randwrite")
    ]
    return rows + [compare("checksums", "tables of a volume written in sequence", "bytes", tables, "with", "without")]
