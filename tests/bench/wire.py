"""Volumes over NBD, compared with other servers of a plain file."""
from lab import GIB, MIB
from table import compare

JOBS = {
    "random read, depth 32": ("randread", 32),
    "random write, depth 32": ("randwrite", 32),
    "random read, depth 1": ("randread", 1),
    "random write, depth 1": ("randwrite", 1),
}


def nbd(lab):
    """One connection, 4 KiB requests."""
    lab.need("fio", "nbdkit", "qemu-nbd")
    size = (256 if lab.quick else 512) * MIB
    member = size * 4 // 8
    lab.need_room(lab.dir, 8 * member + 2 * size + GIB // 2)
    servers = {"Sinew": lab.start_pool(lab.dir, 8, member, size, "--protection=parity1", "--shards=1", whole=True)}
    for name, command in {
        "nbdkit": lambda file, at: ["nbdkit", "--foreground", "--unix", at, "file", file],
        "qemu-nbd": lambda file, at: ["qemu-nbd", "--persistent", "--shared=8", "--socket", at, "--format=raw", file],
    }.items():
        file, at = f"{lab.dir}/{name}.img", f"{lab.dir}/{name}.sock"
        with open(file, "wb") as image:
            image.truncate(size)
        servers[name] = lab.start(command(file, at), at, f"{name}.log")
        servers[name].uri = f"nbd+unix:///?socket={at}"
    for server in servers.values():
        lab.fill(server.uri)

    def sample(server, rw, depth):
        def take():
            lab.settle(server)
            job = lab.fio("--ioengine=nbd", f"--uri={server.uri}", f"--rw={rw}", "--bs=4k", f"--iodepth={depth}")
            side = job[rw.removeprefix("rand")]
            # At depth 1 the row is the time of a request as the client measures it.
            return side["iops"] if depth > 1 else side["lat_ns"]["mean"] / 1000
        return take

    rows = []
    for row, (rw, depth) in JOBS.items():
        samples = lab.interleave({name: sample(server, rw, depth) for name, server in servers.items()})
        unit, peers = ("IOPS", {"nbdkit": 0.6 if "write" in row else 1.0, "qemu-nbd": 1.2}) if depth > 1 else ("us", {"nbdkit": 1.3})
        sense = "at least" if depth > 1 else "at most"
        rows += [compare("nbd", row, unit, samples, "Sinew", peer, (sense, mark)) for peer, mark in peers.items()]
    return rows
