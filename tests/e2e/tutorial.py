"""Runs the commands of docs/tutorial.md in one shell, and compares what they print with what the tutorial says.

tutorial.py TUTORIAL DIRECTORY: the directory has the tarball of the package. Numbers and times are not compared; `...` stands for
any lines, and within a line for any text.
"""
import os
import re
import subprocess
import sys
import threading

PATIENCE = 120


def steps(text):
    """Commands, each with the lines that it prints."""
    found = []
    for line in text.splitlines():
        if line.startswith("    $ "):
            found.append((line[6:], []))
        elif line.startswith("    ") and found:
            found[-1][1].append(line[4:])
        elif line.strip() and not line.startswith("    "):
            found.append((None, []))
    return [(command, lines) for command, lines in found if command]


def pattern(lines):
    """What the lines stand for, as a regular expression."""
    parts = []
    for line in lines:
        if line == "...":
            parts.append(r"(?:[^\n]*\n)*?")
            continue
        pieces = [re.sub(r"\d[\d.:TZ-]*", lambda _: r"[\d.:TZ-]+", re.escape(piece).replace(r"\-", "-").replace(r"\.", "."))
                  for piece in re.sub(r" +", " ", line).split("...")]
        parts.append(r"[^\n]*".join(pieces) + r"\n")
    return re.compile("".join(parts))


class Shell:
    """One shell for all commands, in a session of its own: what it starts ends with it."""

    def __init__(self, directory):
        path = os.environ["PATH"]
        environment = {"PATH": path, "HOME": directory, "XDG_RUNTIME_DIR": os.path.join(directory, "run"), "LC_ALL": "C.UTF-8"}
        os.mkdir(environment["XDG_RUNTIME_DIR"])
        self.process = subprocess.Popen(
            ["bash"], cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True)
        self.say("set -m")

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def run(self, command):
        self.say(f"{command}\necho \"<<$?>>\"")
        lines = []
        watch = threading.Timer(PATIENCE, self.end)
        watch.start()
        for line in self.process.stdout:
            ended = re.fullmatch(r"<<(\d+)>>\n", line)
            if ended:
                watch.cancel()
                return int(ended[1]), "".join(lines)
            lines.append(line)
        raise AssertionError(f"{command}: the shell ended, or it took longer than {PATIENCE} s: {''.join(lines)}")

    def end(self):
        """Ends the shell with the jobs that it still has."""
        for line in subprocess.run(["ps", "-o", "pid=", "-s", str(self.process.pid)], capture_output=True, text=True).stdout.split():
            try:
                os.kill(int(line), 9)
            except ProcessLookupError:
                pass
        self.process.wait()


def main(tutorial, directory):
    text = open(tutorial, encoding="utf-8").read()
    shell = Shell(directory)
    try:
        count = 0
        for command, lines in steps(text):
            code, printed = shell.run(command)
            assert code == 0, f"{command}: exit code {code}: {printed}"
            seen = re.sub(r" +", " ", printed)
            whole = pattern(lines).fullmatch(seen) if lines else True
            assert whole, f"{command} prints\n{printed}\nand the tutorial says\n" + "\n".join(lines)
            count += 1
        assert count > 20, count
        print(f"{count} commands")
    finally:
        shell.end()


main(*sys.argv[1:])
