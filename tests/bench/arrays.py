"""Arrays, compared with md in a user-mode Linux and btrfs on loop devices, each as a fraction of one raw member's speed there."""
import os
import shutil
import subprocess
import time

from lab import GIB, MIB, ROOT, Absent
from table import compare, progress

# Members of each contender.
MEMBERS = {"raid10": 4, "raid5": 5, "raid6": 6, "pool": 6}


def arrays(lab):
    """Three environments: files in memory for Sinew, RAM disks in user-mode Linux for md, loop devices on files in memory for
    btrfs. They share little but the machine, so only fractions of a raw member's speed are compared."""
    lab.need("fio", "taskset")
    size = (256 if lab.quick else 512) * MIB
    lab.need_room(lab.dir, 9 * size + 3 * GIB)
    worlds = {"sinew": lambda: ours(lab, size)}
    try:
        lab.need("linux.uml", "modprobe", "mdadm")
        worlds["md"] = lambda: md(lab, size)
    except Absent as absent:
        progress(f"   without md: {absent}")
    try:
        lab.need("mkfs.btrfs", "losetup")
        worlds["btrfs"] = lambda: btrfs(lab, size)
    except Absent as absent:
        progress(f"   without btrfs: {absent}")
    taken = {world: [] for world in worlds}
    for repeat in range(lab.repeats):
        for world, measure in worlds.items():
            progress(f"   {repeat + 1}/{lab.repeats}  {world}")
            taken[world].append(measure())
    return [row for row in rows(taken) if row]


def rows(taken):
    def row(name, mine, raw, world, theirs, their_raw, mark=None, note=""):
        if world not in taken or any(theirs not in sample for sample in taken[world]):
            return None
        peer = f"{world} {theirs}"
        samples = {
            mine: [sample[mine] / sample[raw] for sample in taken["sinew"]],
            peer: [sample[theirs] / sample[their_raw] for sample in taken[world]],
        }
        return compare("arrays", name, "of raw", samples, mine, peer, mark, note=note)

    def random_write(name, mine, world, theirs, mark=None, cores=1):
        return row(f"random write 4 KiB, {name}", mine, f"raw-write, {cores}", world, theirs, "raw-write", mark)

    sequential = lambda mine, theirs: row(
        f"sequential write 1 MiB, {mine}", f"{mine}-sequential", "raw-sequential", "md", f"{theirs}-sequential", "raw-sequential")
    return [
        random_write("RAID 10", "raid10", "md", "raid10-write", ("at least", 0.8)),
        random_write("RAID 10, two cores", "raid10, 2", "md", "raid10-write", ("at least", 1), 2),
        random_write("RAID 5, write hole open", "raid5-open", "md", "raid5-write", ("at least", 0.8)),
        random_write("RAID 5, write hole open, two cores", "raid5-open, 2", "md", "raid5-write", ("at least", 1), 2),
        random_write("RAID 5, write hole closed", "raid5", "md", "raid5-ppl-write", ("at least", 1.5)),
        random_write("RAID 6, write hole closed, md's open", "raid6", "md", "raid6-write", ("at least", 1)),
        random_write("mapped pool with parity1, md's RAID 5 with its hole open", "pool", "md", "raid5-write", ("at least", 1.5)),
        row("random read 4 KiB, RAID 5 with a member out", "raid5-degraded-read", "raw-read, 1", "md", "raid5-degraded-read", "raw-read",
            ("at least", 1.3)),
        sequential("raid10", "raid10"),
        sequential("raid5-open", "raid5"),
        sequential("raid5", "raid5-ppl"),
        sequential("raid6", "raid6"),
        row("rebuild of a member, RAID 5", "raid5-rebuild", "raw-sequential", "md", "raid5-rebuild", "raw-sequential"),
        random_write("RAID 10", "raid10", "btrfs", "raid10"),
        random_write("RAID 5, write hole closed", "raid5", "btrfs", "raid5"),
        random_write("mapped pool with parity1", "pool", "btrfs", "raid5"),
    ]


def ours(lab, size):
    """All of Sinew's figures, once. "One core" means one for everything, kernel threads included; one shard for each core."""
    found = {}
    raw = f"{lab.dir}/raw"
    with open(raw, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    for cores, cpus in ((1, "0"), (2, "0,1")):
        pinned = ["--ioengine=io_uring", f"--filename={raw}", f"--cpus_allowed={cpus}"]
        for rw in ("read", "write"):
            job = lab.fio(*pinned, f"--rw=rand{rw}", "--bs=4k", "--iodepth=32")
            found[f"raw-{rw}, {cores}"] = job[rw]["iops"]
    job = lab.fio("--ioengine=io_uring", f"--filename={raw}", "--cpus_allowed=0", "--rw=write", "--bs=1M", "--iodepth=8")
    found["raw-sequential"] = job["write"]["bw_bytes"]
    os.remove(raw)

    def bench(kind, *options, cores=1):
        level = ["--protection=parity1"] if kind == "pool" else [f"--level={kind}"]
        cpus = {1: "0", 2: "0,1"}[cores]
        return lab.bench(f"--dir={lab.dir}/members", f"--members={MEMBERS[kind]}", f"--size={size // MIB}M", f"--shards={cores}",
                         "--fill", *level, *options, cpus=cpus)

    random = ["--rw=randwrite", "--depth=32"]
    for name, kind, options in (("raid10", "raid10", []), ("raid5-open", "raid5", ["--no-journal"]), ("raid5", "raid5", []),
                                ("raid6", "raid6", []), ("pool", "pool", [])):
        found[name] = bench(kind, *random, *options)["iops"]
        if name in ("raid10", "raid5-open"):
            found[f"{name}, 2"] = bench(kind, *random, *options, cores=2)["iops"]
        if kind != "pool":
            found[f"{name}-sequential"] = bench(kind, "--rw=write", "--bs=1M", "--depth=8", *options)["mb_per_second"] * 1e6
    found["raid5-degraded-read"] = bench("raid5", "--rw=randread", "--depth=32", "--offline=1")["iops"]
    found["raid5-rebuild"] = rebuild(lab, size)
    return found


def rebuild(lab, size):
    """Bytes per second of the rebuild of a replaced member of a full RAID 5."""
    server = lab.start_array(lab.new_dir(lab.base), "raid5", MEMBERS["raid5"], size)
    lab.fill(server.uri)
    lab.settle(server)
    member = lambda *words: lab.run([lab.sinew(), "member", *words, "--control", server.control])
    member("offline", "0")
    with open(server.files[0], "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    began = time.monotonic()
    member("replace", "0", server.files[0], "--force", "--wait")
    rate = size / (time.monotonic() - began)
    server.kill()
    shutil.rmtree(os.path.dirname(server.files[0]))
    return rate


def md(lab, size):
    """All of md's figures, once, in a user-mode Linux of its own."""
    return uml(lab, 6 * size + GIB, f"{ROOT}/tests/bench/md_job", f"SINEW_MB={size // MIB}", f"SINEW_SECONDS={lab.seconds:g}")


def uml(lab, memory, script, *variables, files=None, cpus=None):
    """What a script writes in a user-mode Linux of its own, on these processors of the machine; `files` are there in its directory, by
    name."""
    pinned = ["taskset", "--cpu-list", cpus] if cpus else []
    return job(lab, "uml", [*pinned, f"{ROOT}/tests/uml/run", f"{memory // MIB}M", "{dir}", script, *variables], files)


def btrfs(lab, size):
    """All of btrfs' figures, once."""
    return job(lab, "btrfs", [f"{ROOT}/tests/bench/btrfs_job", "{dir}", str(size // MIB), f"{lab.seconds:g}"])


def job(lab, name, command, files=None):
    """Runs a script that writes lines of a name and a figure to `result` in its directory."""
    directory = lab.new_dir(lab.base)
    for link, path in (files or {}).items():
        os.link(path, f"{directory}/{link}")
    command = [word.replace("{dir}", directory) for word in command]
    subprocess.run(command, env=os.environ | {"TMPDIR": lab.base}, timeout=600, check=False)
    try:
        with open(f"{directory}/result") as result:
            return {key: float(value) for key, value in (line.split() for line in result)}
    except (OSError, ValueError) as error:
        raise RuntimeError(f"{name}: {error}; see {directory}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)
