"""Completion in real shells: what `sluice completion SHELL` prints is loaded by bash, zsh and fish, and each is asked what it
offers. bash and zsh are typed at over a terminal: a key puts all that they offer into the line, a second one makes it a command
that writes the words to a file, so that what is compared is what a user would have run. fish has a command for it.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("SLUICE_BINARY") or str(ROOT / "build/release/sluice")
SECONDS_MAX = 60  # of one question, on a busy machine
SHOWN_MAX = 4000  # bytes of the terminal in a message

PROTOCOLS = ["divvy", "droplet", "envoy", "http", "limitd", "resp"]
FILES = ["plain.yaml", "a file.yaml", "status", "folder"]  # the last two are folders

# A line as far as it is typed, and what each shell offers then, in any order. Files are those of FILES.
OFFERED = (
    ("sluice cou", ["counters"]),
    ("sluice status --ov", ["--over"]),
    ("sluice ask ", PROTOCOLS),
    ("sluice ask dr", ["droplet"]),
    ("sluice ask droplet --l", ["--ls", "--lm", "--lh", "--ld", "--lw", "--lo"]),
    ("sluice ask droplet ", ["take", "query"]),
    ("sluice ask limitd p", ["put", "ping"]),
    ("sluice ask http take ", []),
    ("sluice override ", ["set", "list", "show", "remove"]),
    ("sluice override set --al", ["--algorithm", "--all-limits"]),
    ("sluice override set --algorithm sliding_", ["sliding_window", "sliding_log"]),
    ("sluice override set ", []),
    ("sluice store re", ["repair"]),
    ("sluice completion ", ["bash", "zsh", "fish"]),
    ("sluice completion bash ", []),
    ("sluice help res", ["resp", "reset"]),
    ("sluice help status ", []),
    ("sluice man ask", ["ask"]),
    ("sluice log w", ["warn"]),
    ("sluice check ", FILES),
    ("sluice check pl", ["plain.yaml"]),
    # Values of options, after a space and after a `=`.
    ("sluice serve --durability ", ["none", "interval", "always"]),
    ("sluice serve --durability al", ["always"]),
    ("sluice serve --config pl", ["plain.yaml"]),
    ("sluice serve --config a", ["a file.yaml"]),
    ("sluice limitd -c pl", ["plain.yaml"]),
    ("sluice status --over ", []),
    ("sluice status ", []),
    # A value is not a word of the command, and one with a colon is one value.
    ("sluice ask --server localhost:8321 di", ["divvy"]),
    ("sluice ask --timeout 500 droplet --co", ["--count"]),
    ("sluice ask --server=[::1]:8321 droplet --co", ["--count"]),
    ("sluice ask droplet --server localhost:3000 qu", ["query"]),
    ("sluice store --json du", ["dump"]),
    ("sluice store --config plain.yaml du", ["dump"]),
    # After `--` there are only words.
    ("sluice check -- pl", ["plain.yaml"]),
    # A folder with the name of a command does not put a slash behind the command.
    ("sluice stat", ["status"]),
    ("sluice serve --durability=", ["none", "interval", "always"]),
    ("sluice serve --durability=al", ["always"]),
    ("sluice serve --config=pl", ["plain.yaml"]),
    ("sluice explain --protocol=env", ["envoy"]),
)

PROMPT = "ready> "
ALL_MATCHES = "\x18a"  # ^X a: puts them all into the line
WORDS = 'words() { printf "%s\\0" "${@:2}" >"$1.new"; mv "$1.new" "$1"; }\n'
BASH = rf"""{WORDS}PS1='{PROMPT}' HISTFILE=
set -o emacs
bind 'set bell-style none'
bind '"\C-xa": insert-completions'
source COMPLETION
"""
ZSH = rf"""{WORDS}PS1='{PROMPT}'
unsetopt beep prompt_sp nomatch
fpath=(FUNCTIONS $fpath)
autoload -U compinit
compinit -u -D
bindkey -e
zle -C all-matches complete-word _generic
bindkey '^Xa' all-matches
zstyle ':completion:all-matches:*' completer _all_matches _complete
zstyle ':completion:all-matches:*' insert true
"""


def completion(shell: str) -> str:
    return subprocess.run([BINARY, "completion", shell], capture_output=True, text=True, check=True, timeout=SECONDS_MAX,
                          stdin=subprocess.DEVNULL).stdout


def help_of(command: str) -> str:
    return subprocess.run([BINARY, *command.split(), "--help"], capture_output=True, text=True, check=True, timeout=SECONDS_MAX,
                          stdin=subprocess.DEVNULL).stdout


def of_help() -> list[tuple[str, list[str]]]:
    """All commands, and all long options of each, as lines like those of OFFERED."""
    commands = re.findall(r"^  ([a-z]+) {1,}[^-]", help_of("").split("\n\n  sluice ")[0].split("Commands:\n")[1], re.MULTILINE)
    lines = [("sluice ", [*commands, "help"])]
    for command in commands + [f"ask {protocol}" for protocol in PROTOCOLS]:
        lines.append((f"sluice {command} --", re.findall(r"^  (?:-\w,)?(--[a-z][\w-]*)", help_of(command), re.MULTILINE)))
    return lines


class Place:
    """A folder with the files of FILES, which is also the shell's home."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-shells-")
        self.path = Path(self._folder.name)
        self.work = self.path / "work"
        for folder in ("status", "folder"):
            (self.work / folder).mkdir(parents=True)
        for file in ("plain.yaml", "a file.yaml"):
            (self.work / file).touch()
        (self.path / "bin").mkdir()
        (self.path / "bin/sluice").symlink_to(BINARY)
        self.environment = {"PATH": f"{self.path}/bin:{os.environ['PATH']}", "HOME": str(self.path), "TERM": "dumb", "LC_ALL": "C.UTF-8",
                            "XDG_CONFIG_HOME": str(self.path / "config"), "XDG_DATA_HOME": str(self.path / "data")}

    def write(self, name: str, text: str) -> str:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def remove(self) -> None:
        self._folder.cleanup()


class Terminal:
    """A shell at the other end of a pseudo-terminal."""

    def __init__(self, command: list[str], place: Place) -> None:
        self.place = place
        self.shown = b""
        self.asked = 0
        own, its = pty.openpty()
        self.fd = own
        self.process = subprocess.Popen(command, cwd=place.work, env=place.environment, stdin=its, stdout=its, stderr=its,
                                        start_new_session=True)
        os.close(its)

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.fd)

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def read(self, seconds: float) -> None:
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                self.shown += os.read(self.fd, 65536)
            except OSError:  # it has ended
                time.sleep(seconds)

    def wait_for(self, what: str, found: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS_MAX
        while not found():
            if time.monotonic() > end:
                raise AssertionError(f"no {what}: {self.shown[-SHOWN_MAX:].decode(errors='replace')}")
            self.read(0.05)

    def offered(self, line: str) -> list[str]:
        """What replaces the last word of `line` when the key for all completions was pressed."""
        self.wait_for("prompt", lambda: PROMPT.encode() in self.shown)
        self.asked += 1
        file = self.place.path / f"words-{self.asked}"
        self.shown = b""
        # ^A goes to the beginning of the line, so that `words` is not the command that is completed.
        self.type(f"{line}{ALL_MATCHES}\x01words {file} \n")
        self.wait_for("words", file.exists)
        return file.read_text(encoding="utf-8").split("\0")[len(line.split(" ")) - 1:-1]


def sorted_words(line: str, words: list[str]) -> list[str]:
    """The words in order, without the option before a `=` and without the slash after a folder."""
    option = line.split(" ")[-1].partition("=")
    return sorted(word.removeprefix(f"{option[0]}=" if option[1] else "").removesuffix("/") for word in words)


class CompletionTest(unittest.TestCase):
    lines: list[tuple[str, list[str]]]

    @classmethod
    def setUpClass(cls) -> None:
        cls.lines = [*OFFERED, *of_help()]

    def start(self, shell: str) -> Place:
        if not shutil.which(shell):
            missing = f"{shell} is not installed; `scripts/setup test` installs it"
            self.assertFalse(os.environ.get("CI"), missing)
            self.skipTest(missing)
        place = Place()
        self.addCleanup(place.remove)
        return place

    def compare(self, offered: Callable[[str], list[str]]) -> None:
        self.assertGreater(len(self.lines), 70)
        for line, words in self.lines:
            with self.subTest(line=line):
                self.assertEqual(sorted_words(line, offered(line)), sorted(words))

    def terminal(self, place: Place, *command: str) -> Terminal:
        terminal = Terminal(list(command), place)
        self.addCleanup(terminal.end)
        return terminal

    def test_bash(self) -> None:
        place = self.start("bash")
        rules = place.write("bashrc", BASH.replace("COMPLETION", place.write("sluice.bash", completion("bash"))))
        self.compare(self.terminal(place, "bash", "--noprofile", "--rcfile", rules, "-i").offered)

    def test_bash_that_cuts_no_words_at_equals_signs_and_colons(self) -> None:
        place = self.start("bash")
        rules = BASH.replace("COMPLETION", place.write("sluice.bash", completion("bash")))
        rules = place.write("bashrc", f"{rules}COMP_WORDBREAKS=${{COMP_WORDBREAKS//[=:]/}}\n")
        terminal = self.terminal(place, "bash", "--noprofile", "--rcfile", rules, "-i")
        self.compare(terminal.offered)

    def test_zsh(self) -> None:
        place = self.start("zsh")
        place.write("functions/_sluice", completion("zsh"))
        place.write(".zshrc", ZSH.replace("FUNCTIONS", str(place.path / "functions")))
        self.compare(self.terminal(place, "zsh", "-d", "-i").offered)

    def test_zsh_that_reads_it_as_a_script(self) -> None:
        place = self.start("zsh")
        script = place.write("sluice.zsh", completion("zsh"))
        place.write(".zshrc", ZSH.replace("FUNCTIONS", str(place.path)) + f"source {script}\n")
        terminal = self.terminal(place, "zsh", "-d", "-i")
        self.assertEqual(terminal.offered("sluice cou"), ["counters"])
        self.assertEqual(sorted(terminal.offered("sluice ask ")), PROTOCOLS)

    def test_fish(self) -> None:
        place = self.start("fish")
        place.write("config/fish/completions/sluice.fish", completion("fish"))
        script = "for line in $argv; complete -C $line; printf '\\0'; end"
        done = subprocess.run(["fish", "-c", script, *(line for line, _ in self.lines)], cwd=place.work, env=place.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        answers = dict(zip((line for line, _ in self.lines), done.stdout.split("\0"), strict=False))
        self.compare(lambda line: [match.split("\t")[0] for match in answers[line].splitlines()])


if __name__ == "__main__":
    unittest.main()
