"""A member that appears while a server opens the other ones.

    late.py MEMBER AWAY PLACE READY

Takes a lease on the file MEMBER, opens the pipe READY, and waits until a server opens MEMBER for writing, which the lease delays: the
server has stopped waiting for members then. Moves the file AWAY to PLACE, and gives up the lease.
"""

import fcntl
import os
import signal
import sys

member, away, place, ready = sys.argv[1:]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
lease = os.open(member, os.O_RDONLY)
fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_RDLCK)
open(ready, "w").close()
signal.sigwait([signal.SIGIO])
os.rename(away, place)
fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_UNLCK)
