"""Volumes over vhost-user, compared with the same ones over NBD and with another server."""
import json
import os

from lab import GIB, MIB
from table import compare

DEPTH = 64
KINDS = {"random read": "read", "random write": "write"}


def vhost(lab):
    """One queue of a guest that polls, 4 KiB requests."""
    lab.need("fio", "qemu-storage-daemon")
    load = lab.built("VHOST_LOAD", "examples/vhost_load", "-p", "sinew-frontend", "--example", "vhost_load")
    size = (256 if lab.quick else 512) * MIB
    member = size * 4 // 8
    lab.need_room(lab.dir, 8 * member + size + GIB // 2)
    ours, file = f"{lab.dir}/vhost", f"{lab.dir}/qemu.img"
    protection = ["--protection=parity1", "--shards=1"]
    pool = lab.start_pool(lab.dir, 8, member, size, *protection, whole=True, serve=["--vhost-user", f"v={ours}"])
    lab.fill(pool.uri)
    with open(file, "wb") as image:
        os.posix_fallocate(image.fileno(), 0, size)
    servers = {"Sinew": (pool, ours)}
    for name, node in {
        "qemu-storage-daemon": f"driver=file,filename={file},aio=io_uring",
        "qemu-storage-daemon, null": f"driver=null-co,size={size},read-zeroes=on",
    }.items():
        at = f"{lab.dir}/qemu{len(servers)}"
        export = f"type=vhost-user-blk,id=e,node-name=n,addr.type=unix,addr.path={at},writable=on"
        command = ["qemu-storage-daemon", "--blockdev", f"node-name=n,{node}", "--export", export]
        servers[name] = (lab.start(command, at, "qemu.log"), at)

    def by_vhost(server, at, kind):
        def take():
            lab.settle(server)
            return json.loads(lab.run([load, at, kind, str(DEPTH), str(lab.seconds)]))["iops"]
        return take

    def by_nbd(kind):
        def take():
            lab.settle(pool)
            options = [f"--uri={pool.uri}", f"--rw=rand{kind}", "--bs=4k", f"--iodepth={DEPTH}"]
            return lab.fio("--ioengine=nbd", *options)[kind]["iops"]
        return take

    rows = []
    for row, kind in KINDS.items():
        contenders = {name: by_vhost(server, at, kind) for name, (server, at) in servers.items()}
        samples = lab.interleave(contenders | {"NBD": by_nbd(kind)})
        for peer, mark in {"NBD": ("at least", 3), "qemu-storage-daemon": ("at least", 1), "qemu-storage-daemon, null": None}.items():
            rows.append(compare("vhost", f"{row}, depth {DEPTH}", "IOPS", samples, "Sinew", peer, mark))
    return rows
