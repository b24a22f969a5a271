# SPDX-License-Identifier: Apache-2.0
"""shells: asks bash, zsh and fish, as a user has them, what they offer at the end of a line.

bash and zsh run on a terminal of their own, get keys there, and write their offers to a pipe. fish needs no
terminal. A shell is started once and asked many times. Every answer has a deadline, and leaving the
with-block ends the shell.
"""

import os
import pty
import select
import shutil
import signal
import subprocess
import time

DEADLINE_S = 30
END = "\0\0"  # the end of an answer; newlines separate the offers before it

# One key inserts all completions (readline's insert-completions), another one writes the line to the pipe.
BASH_RC = """
{start}
. {completions}/pchrun; . {completions}/pchctl; . {completions}/pchrun-watch; . {completions}/pchrun-web
complete -W 'probe-one probe-two' probe
answer() {{ printf '%s\\0\\0' "$READLINE_LINE" >&{pipe}; READLINE_LINE= READLINE_POINT=0; }}
bind 'set completion-query-items 0' 'set bell-style none' '"\\C-o": insert-completions'
bind -x '"\\C-t": answer'
"""

# Writes what the completion functions give to zle, and a mark when they have ended.
ZSH_RC = """
PS1= LISTMAX=100000 fpath=({completions} $fpath)
autoload -Uz compinit && compinit -u -D
_probe() {{ compadd probe-one probe-two }}
compdef _probe probe
compadd() {{
    local -a offered
    if (( ! $argv[(I)-[OAD]] )); then
        builtin compadd -A offered "$@"
        (( $#offered )) && print -rl -- $offered >&{pipe}
    fi
    builtin compadd "$@"
}}
answer() {{ zle list-choices; printf '\\0\\0' >&{pipe}; BUFFER= }}
zle -N answer
bindkey '^T' answer
"""

FISH_RC = """
for name in pchrun pchctl pchrun-watch pchrun-web
    source {completions}/$name.fish
end
complete -c probe -f -a 'probe-one probe-two'
for line in $argv
    complete -C $line
    printf '\\0\\0'
end
"""


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, command, env, folder):
        self.output, write_end = os.pipe()
        self.pipe = write_end
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            try:
                os.dup2(write_end, 9)
                os.chdir(folder)
                os.execvpe(command[0], command, env)
            finally:
                os._exit(127)
        os.close(write_end)

    def ask(self, keys):
        """Types these keys, and returns the answer from the pipe up to its end."""
        os.write(self.terminal, keys.encode())
        said = b""
        until = time.monotonic() + DEADLINE_S
        while not said.endswith(END.encode()):
            ready, _, _ = select.select([self.output, self.terminal], [], [], until - time.monotonic())
            assert ready, f"no answer to {keys!r}, only {said!r}"
            if self.terminal in ready:
                os.read(self.terminal, 65536)  # the echo is not needed
            if self.output in ready:
                got = os.read(self.output, 65536)
                assert got, f"the shell ended at {keys!r}"
                said += got
        return said.decode()[:-len(END)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)
        os.close(self.output)


def environment(folder, programs):
    return {"HOME": str(folder), "ZDOTDIR": str(folder), "PATH": f"{programs}:/usr/bin:/bin", "TERM": "dumb",
            "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}


def bash(lines, completions, folder, start=""):
    rc = folder / ".bashrc"
    rc.write_text(BASH_RC.format(completions=completions, pipe=9, start=start))
    offers = []
    with Terminal(["bash", "--rcfile", str(rc), "-i"], environment(folder, folder / "bin"), folder) as shell:
        for line in lines:
            said = shell.ask(line + "\x0f\x14")
            typed = line[:len(line) - len(line.split(" ")[-1])]
            assert said.startswith(typed), (line, said)
            offers.append(set() if said == line else set(said[len(typed):].split()))
    return offers


def bash_full(lines, completions, folder):
    """As bash(), with the functions of Debian's package bash-completion."""
    return bash(lines, completions, folder, ". /usr/share/bash-completion/bash_completion")


def zsh(lines, completions, folder):
    (folder / ".zshrc").write_text(ZSH_RC.format(completions=completions, pipe=9))
    with Terminal(["zsh", "-i"], environment(folder, folder / "bin"), folder) as shell:
        return [set(shell.ask(line + "\x14").split("\n")) - {""} for line in lines]


def fish(lines, completions, folder):
    script = folder / "ask.fish"
    script.write_text(FISH_RC.format(completions=completions))
    said = subprocess.run(["fish", "--no-config", script, *lines], env=environment(folder, folder / "bin"),
                          cwd=folder, text=True, capture_output=True, check=True, timeout=DEADLINE_S)
    assert not said.stderr, said.stderr
    answers = said.stdout.split(END)[:-1]
    return [{row.split("\t")[0] for row in answer.split("\n")} - {""} for answer in answers]


SHELLS = {"bash": bash, "bash-completion": bash_full, "zsh": zsh, "fish": fish}


def is_there(shell):
    if shell == "bash-completion":
        return os.path.exists("/usr/share/bash-completion/bash_completion")
    return shutil.which(shell) is not None
