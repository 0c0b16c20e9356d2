"""The elastic array that is measured, and the content and the loads that it gets."""
import json
import os
import signal
import subprocess
import time

from lab import MIB
from zram import until, zrams

# Of each zram, by lz4. Pieces of content are random or copied, so that parity of them hardly compresses, as with real data.
RATIO = 0.5
DEPTH = 32
# Pieces of the hot fifth. They lie apart, so that neither the order of addresses nor the place of a stripe tells what is hot.
HOT_PIECES = 10


class Array:
    """A RAID 5 with elastic stripes on four zram devices, full of content."""

    def __init__(self, lab, size, shards=1):
        self.lab, self.timed = lab, ("--duration", str(lab.seconds))
        self.members = zrams(lab, 4, size)
        self.all, self.rest = self.directory(self.members), self.directory(self.members[:-1])
        lab.run([lab.sinew(), "array", "create", "v", *self.members, "--level=5", "--elastic", f"--expect={1 / RATIO:g}",
                 "--assume-zeroed", f"--shards={shards}"])
        server = self.serve()
        state = lab.status(server)
        self.bytes, self.stripe_bytes = state["volumes"][0]["bytes"], 3 * state["array"]["chunk_bytes"]
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

    def places(self, place):
        """Streams of a load: (share of the requests, place, first byte, bytes)."""
        if place != "80/20":
            return [(1, place, 0, self.bytes)]
        piece = self.bytes // HOT_PIECES
        cold = piece * 8 // 10 // self.stripe_bytes * self.stripe_bytes
        return [
            stream
            for at in range(0, HOT_PIECES * piece, piece)
            for stream in ((0.2 / HOT_PIECES, "uniform", at, cold), (0.8 / HOT_PIECES, "uniform", at + cold, piece - cold))
        ]

    def load(self, kind, place, request_bytes, *options, depth=DEPTH, target=None, writes=0):
        """The command of a load, in the process of the engine unless the target is served. `writes`: this part of the requests are
        writes, whatever their kind."""
        path = f"{self.lab.dir}/load.toml"
        with open(path, "w") as file:
            file.write('[source.generator]\nseed = 1\narrival = "closed"\n')
            for share, where, first, length in self.places(place):
                first, length = first // 4096 * 4096, length // 4096 * 4096
                for one, part in ((kind, share * (1 - writes)), ("write", share * writes)):
                    file.write(f'[[source.generator.streams]]\nkind = "{one}"\nshare = {part}\nplace = "{where}"\n'
                               f'sizes.choice = [{{ bytes = {request_bytes}, weight = 1 }}]\nfrom = {first}\nfootprint = {length}\n')
        return [self.lab.sinew(), "replay", target or self.all, path, f"--closed={depth}", f"--compressible={RATIO}", "--json", *options]

    def replay(self, kind, place, request_bytes, *options, cpus=None, **where):
        """The report of a load, on these processors only."""
        pinned = ["taskset", "--cpu-list", cpus] if cpus else []
        text = self.lab.run([*pinned, *self.load(kind, place, request_bytes, *options, **where)])
        return json.loads(text)["report"]["kinds"][kind]

    def begin(self, *words, **where):
        """Begins a load that goes on until it is ended."""
        load = subprocess.Popen(self.load(*words, **where), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.lab.at_end(load.kill)
        return load

    @staticmethod
    def end(load):
        load.send_signal(signal.SIGINT)
        load.wait()

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
