# SPDX-License-Identifier: Apache-2.0
"""Checks contrib's files for schedulers, and README's. Manifests fit the schemas in tests/house/schemas. Scripts are shell
and end in exec. Each README names all files of its folder. tests/behave/test_schedulers.py runs the scripts."""

import ast
import copy
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from documents import block

ROOT = Path(__file__).resolve().parents[2]
CONTRIB = ROOT / "contrib"
FOLDERS = ["slurm", "kubernetes", "systemd", "lsf", "htcondor", "pbs", "sge", "aws-batch", "skypilot", "docker",
           "prometheus", "packages"]
SCRIPTS = [path for name in FOLDERS for path in sorted((CONTRIB / name).iterdir())
           if path.read_text().startswith("#!")]
SCHEMAS = {}
for file in (Path(__file__).parent / "schemas").glob("*.json"):
    SCHEMAS.update(json.loads(file.read_text()))


def manifests():
    """(name, name of the schema, document)"""
    for path in sorted((CONTRIB / "kubernetes").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document["kind"], document
    for path in sorted((CONTRIB / "aws-batch").glob("*.json")):
        yield path.name, "RegisterJobDefinition", json.loads(path.read_text())
    for path in sorted((CONTRIB / "skypilot").glob("*.yaml")):
        yield path.name, "task", yaml.safe_load(path.read_text())


README = (ROOT / "README.md").read_text()
MANIFESTS = [*manifests(), ("README.md", "Job", yaml.safe_load(block(README, "yaml")))]


def faults(kind, document):
    return [error.message for error in jsonschema.Draft7Validator(SCHEMAS[kind]).iter_errors(document)]


def test_there_are_manifests():
    kinds = {kind for _, kind, _ in MANIFESTS}
    assert kinds == {"Job", "Service", "JobSet", "PyTorchJob", "TrainingRuntime", "TrainJob",
                     "RegisterJobDefinition", "task"}


@pytest.mark.parametrize("name, kind, document", MANIFESTS, ids=lambda value: str(value)[:24])
def test_manifest_fits_its_schema(name, kind, document):
    assert not faults(kind, document)


def places(node, path=()):
    """The path to every object in a document."""
    if isinstance(node, dict):
        yield path
        for key, inner in node.items():
            yield from places(inner, (*path, key))
    if isinstance(node, list):
        for i, inner in enumerate(node):
            yield from places(inner, (*path, i))


# The user chooses the keys inside these.
OF_THE_USER = {"limits", "labels", "selector", "envs", "secrets", "volumes", "pytorchReplicaSpecs"}


@pytest.mark.parametrize("name, kind, document", MANIFESTS, ids=lambda value: str(value)[:24])
def test_schema_sees_what_does_not_belong(name, kind, document):
    """Finds a wrong key in any object of the document."""
    seen = 0
    for path in places(document):
        if path and path[-1] in OF_THE_USER and isinstance(path[-1], str):
            continue
        changed = node = copy.deepcopy(document)
        for step in path:
            node = node[step]
        node["noSuchField"] = 1
        assert faults(kind, changed), path
        seen += 1
    assert seen


@pytest.mark.parametrize("name, text", [*((path.name, path.read_text()) for path in SCRIPTS),
                                        ("README.md", block(README, "sh"))],
                         ids=lambda value: value.partition("\n")[0])
def test_script_is_shell_and_ends_in_exec(name, text):
    """The scheduler signals the script's process and takes its exit status. A shell that stays in between
    would take both (contrib/slurm/README.md)."""
    shell = "bash" if "bash" in text.splitlines()[0] else "sh"
    subprocess.run([shell, "-n"], input=text, text=True, check=True)
    code = re.sub(r"^\s*#.*", "", text, flags=re.M)
    code = re.sub(r"'[^']*'", "''", code.replace("\\\n", " "))  # an argument may be a script itself
    last = code.split("\n")[-2]
    assert re.search(r"(^|&& )exec ", last), last


def test_all_scripts_were_found():
    assert {"nodes.sbatch", "tasks.sbatch", "batch.sbatch", "replace.sbatch", "requeue.sh", "train.lsf", "train.sge", "train.pbs",
            "resubmit.sh", "with-key.sh"} == {path.name for path in SCRIPTS}


@pytest.mark.parametrize("name", FOLDERS)
def test_page_names_all_that_is_beside_it(name):
    page = (CONTRIB / name / "README.md").read_text()
    others = {path.name for path in (CONTRIB / name).iterdir()} - {"README.md"}
    assert others
    assert others <= set(re.findall(r"\]\(([\w.-]+)\)", page))
    for link in re.findall(r"\]\(([\w./-]+)\)", page):
        assert (CONTRIB / name / link).exists(), link


def test_systemd_takes_the_unit(tmp_path):
    """Verified where systemd is installed. Other programs replace those that the unit names, which may not be
    installed."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    text = (CONTRIB / "systemd/train.service").read_text()
    cluster = re.sub(r"^#(\w+=)", r"\1", text, flags=re.M)
    for number, unit in enumerate((text, cluster)):
        path = tmp_path / f"train{number}.service"
        path.write_text(unit.replace("/usr/bin/pchrun", "/bin/true"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], text=True, capture_output=True,
                              check=False)
        about = [line for line in done.stderr.splitlines() if path.name in line]
        assert done.returncode == 0 and not about, done.stderr


def test_systemd_would_refuse_another(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    path = tmp_path / "train.service"
    path.write_text("[Service]\nExecStart=/bin/true\nRestartForceExitStatus=fortytwo\n")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], text=True, capture_output=True,
                          check=False)
    assert f"{path}:3: " in done.stderr


def dockerfile():
    """(its lines, the packages to build with, the packages to run with)"""
    text = re.sub(r"\\\n", " ", (CONTRIB / "docker/Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    built, run = [set(line.split("recommends ")[1].split("&&")[0].split()) for line in lines if "apt-get" in line]
    return lines, built, run


def test_dockerfile():
    """The Dockerfile installs the quickstart's packages to build, and starts pchrun without a shell."""
    lines, built, _ = dockerfile()
    assert {line.split()[0] for line in lines} == {"FROM", "RUN", "COPY", "ENTRYPOINT"}
    assert json.loads(lines[-1].removeprefix("ENTRYPOINT ")) == ["pchrun", "--"]
    quickstart = re.search(r"^readonly packages=\((.*?)\)", (CONTRIB / "quickstart.sh").read_text(), re.S | re.M)[1]
    assert built == set(quickstart.split())
    options = set(re.findall(r"^option\('(\w+)'", (ROOT / "meson_options.txt").read_text(), re.M)) | {"buildtype"}
    assert set(re.findall(r"-D(\w+)=", " ".join(lines))) <= options


def files_of_git():
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("git is not installed, or this is no clone")
    return subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True, check=True).stdout.splitlines()


def left_out(path):
    """Whether a container's builder does not get a file, by the rules of .dockerignore: a pattern begins in the root."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    rule = "|".join(re.escape(each).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*") for each in patterns)
    return bool(re.fullmatch(f"({rule})(/.*)?", path))


def test_the_builder_of_the_image_gets_the_sources_alone():
    """Once it got the history, and gigabytes of build folders."""
    for line in (ROOT / ".gitignore").read_text().split():
        made = line.strip("/").replace("*", "x")
        assert left_out(f"{made}/file" if line.endswith("/") else made), line
        assert line.startswith("/") or left_out(f"src/core/{made}"), line
    assert left_out(".git/config")
    assert [path for path in files_of_git() if left_out(path)] == []


STAND_IN = """#!/bin/sh
case $1 in --version|--make-key) exit 0 ;; esac
printf '%s\\n' "$@" >"$0.$$"
exit 1
"""


def options_of(words):
    return [word for word in words if word.startswith("--")]


def test_the_quickstart_shows_the_command_that_it_runs(tmp_path):
    """The command that it shows once lacked options that it uses itself, so it did not do what was shown."""
    for name in ("pchrun", "charlm"):
        (tmp_path / name).write_text(STAND_IN)
        (tmp_path / name).chmod(0o755)
    shown = subprocess.run([CONTRIB / "quickstart.sh", "--programs", tmp_path], capture_output=True, text=True,
                           timeout=60).stdout
    command = re.search(r"^  (pchrun --job .*?[^\\])$", shown, re.M | re.S)[1].replace("\\\n", " ").split()
    (ran, *others) = [path.read_text().split("\n") for path in tmp_path.glob("pchrun.*")]
    assert len(others) == 3 and options_of(command) == options_of(ran)
    assert "--no-save-train-on" in command and command[command.index("--") + 1] == "charlm"


# Of two libraries one is enough; the image has the first.
INSTEAD = {"libcurl-gnutls.so.4", "libssl.so.1.1"}
# A part of the driver, which the runtime of a container takes from the host.
OF_THE_HOST = {"libnvidia-ml.so.1"}


def libraries(program):
    """The libraries that a program is linked with, and those that it loads later."""
    linked = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    named = re.findall(rb"(?<![\w./-])(lib[\w+-]+\.so\.\d+)\0", Path(program).read_bytes())
    return {name.decode() for name in named} - INSTEAD - OF_THE_HOST | set(re.findall(r"\(NEEDED\).*\[(.*)\]", linked))


def test_the_image_has_what_the_programs_need():
    """The image has the packages of the programs' libraries, and libcurl's certificates. Packages of every image,
    and of the sanitizers, do not count."""
    if "bookworm" not in Path("/etc/os-release").read_text() or not shutil.which("dpkg"):
        pytest.skip("the image is of Debian 12, and this machine is not")
    programs = os.environ["IMAGE_PROGRAMS"].split(":")
    if programs == [""]:
        pytest.skip("libevent, jansson and ncurses are not linked in here (static_libs)")
    needed = set().union(*map(libraries, programs))
    owners = [subprocess.run(["dpkg", "-S", f"*-linux-gnu/{name}"], capture_output=True, text=True, check=True).stdout
              for name in needed]
    packages = {re.split("[:,]", line)[0] for owner in owners for line in owner.splitlines()}
    packages = {name for name in packages if not re.match(r"libc6|libgcc-s1|lib(a|l|t|ub)san", name)}
    assert {"libssl3", "libcurl4"} <= packages and dockerfile()[2] == packages | {"ca-certificates"}


def calls(path):
    """The calls and names of a Python file: {function: the first arguments that are constant} and {name: the value as
    syntax}."""
    tree = ast.parse(path.read_text())
    texts = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            texts.setdefault(getattr(node.func, "id", ""), []).append(node.args[0].value)
    own = [node for node in tree.body if isinstance(node, ast.Assign)]
    values = {node.targets[0].id: node.value for node in own}
    return texts, values


def recipes():
    """{file: (its version, the names of its dependencies)}"""
    folder = CONTRIB / "packages"
    spec = (folder / "pchrun.spec").read_text()
    conda = yaml.safe_load((folder / "conda.yaml").read_text())
    spack, _ = calls(folder / "spack.py")
    _, easybuild = calls(folder / "easybuild.eb")
    apptainer = (folder / "apptainer.def").read_text()
    return {
        "pchrun.spec": (re.search(r"^Version: *(.*)", spec, re.M)[1], re.findall(r"pkgconfig\(([a-z]+)", spec)),
        "conda.yaml": (conda["context"]["version"], [word.split()[0] for word in conda["requirements"]["host"]]),
        "spack.py": (spack["version"][0], [word.split("@")[0] for word in spack["depends_on"]]),
        "easybuild.eb": (easybuild["version"].value,
                         [entry.elts[0].value.lower() for entry in easybuild["dependencies"].elts]),
        "apptainer.def": (re.search(r"pchrun-([\d.]+)-cp", apptainer)[1], None),
    }


@pytest.mark.parametrize("name", recipes())
def test_recipe(name):
    """A recipe has the version of the build, names the libraries, and gives only options that there are."""
    version, needs = recipes()[name]
    assert version == re.search(r"version: '([^']*)'", (ROOT / "meson.build").read_text())[1]
    for library in ("libevent", "jansson", "ncurses", "curl", "openssl"):
        assert needs is None or any(library in need for need in needs), library
    options = set(re.findall(r"^option\('(\w+)'", (ROOT / "meson_options.txt").read_text(), re.M))
    assert set(re.findall(r"-D(\w+)=", (CONTRIB / "packages" / name).read_text())) <= options | {"buildtype", "c_args"}


# A line with an address: its file, what it looks like, and which address it has.
ADDRESSES = [
    ("debian/control", r"Maintainer: (.*)", "maintainer"),
    ("debian/control", r"Homepage: (.*)", "homepage"),
    ("debian/changelog", r" -- (.*?)  \w+, .*", "maintainer"),
    ("debian/copyright", r"Upstream-Contact: (.*)", "maintainer"),
    ("debian/copyright", r"Source: (.*)", "homepage"),
    ("contrib/packages/pchrun.spec", r"URL: *(.*)", "homepage"),
    ("contrib/packages/pchrun.spec", r"\* \w+ \w+ \d+ \d+ (.*) - [\d.]+-\d+", "maintainer"),
    ("contrib/packages/easybuild.eb", r"homepage = '(.*)'", "homepage"),
    ("contrib/packages/conda.yaml", r"  homepage: (.*)", "homepage"),
    ("contrib/packages/spack.py", r'    homepage = "(.*)"', "homepage"),
    ("pyproject.toml", r'Homepage = "(.*)"', "homepage"),
    ("pyproject.toml", r'Issues = "(.*)"', "issues page"),
    ("pyproject.toml", r'maintainers = \[\{name = "(.*)", email = "(.*)"\}\]', "maintainer"),
    ("SECURITY.md", r"Write to (<.*>)\. .*", "mail address"),
]


VERSIONS = [
    ("NEWS.md", r"## ([\d.]+) \(.*\)"),
    ("debian/changelog", r"pchrun \(([\d.]+)\) .*"),
]


@pytest.mark.parametrize("name, pattern", VERSIONS)
def test_the_newest_version_is_that_of_meson_build(name, pattern):
    [newest, *_] = re.findall(f"^{pattern}$", (ROOT / name).read_text(), re.M)
    assert newest == re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())[1]


def home(text):
    """The addresses of a meson.build."""
    known = {name: re.search(rf"^{name} = '(.*)'$", text, re.M)[1] for name in ("homepage", "maintainer")}
    known["issues page"] = known["homepage"] + "/issues"
    known["mail address"] = re.search("<.*>", known["maintainer"])[0]
    return known


def address_faults(known):
    """Each line that has another address. The first line of its kind counts: a changelog begins with the newest."""
    for name, pattern, kind in ADDRESSES:
        lines = (ROOT / name).read_text().splitlines()
        found = [(number, match) for number, line in enumerate(lines, 1) if (match := re.fullmatch(pattern, line))]
        if not found:
            yield f"{name}: no line has the {kind}, as in {pattern}"
            continue
        number, match = found[0]
        has = match[1] if match.lastindex == 1 else f"{match[1]} <{match[2]}>"
        if has != known[kind]:
            yield f"{name}:{number}: the {kind} is {has}; meson.build has {known[kind]}"


def test_every_address_is_that_of_meson_build():
    assert list(address_faults(home((ROOT / "meson.build").read_text()))) == []


def test_a_new_address_names_every_line_to_change():
    new = home("homepage = 'https://new.test'\nmaintainer = 'N <n@new.test>'\n")
    faults = list(address_faults(new))
    assert len(faults) == len(ADDRESSES)
    assert all(re.match(rf"{re.escape(name)}:\d+: ", fault) for fault, (name, _, _) in zip(faults, ADDRESSES))


def test_no_other_file_has_a_placeholder():
    placeholder = ("pchrun" + ".example").encode()
    found = {path for path in files_of_git() if placeholder in (ROOT / path).read_bytes()}
    assert found <= {name for name, _, _ in ADDRESSES} | {"meson.build"}


def test_aws_batch_names_who_reads_the_secrets():
    """AWS Batch starts a container with secrets only if it has an execution role."""
    document = json.loads((CONTRIB / "aws-batch/multi-node.json").read_text())
    containers = [nodes["container"] for nodes in document["nodeProperties"]["nodeRangeProperties"]]
    assert containers and all(c["secrets"] and c["executionRoleArn"] for c in containers)


def test_pbs_asks_in_the_script():
    """A job that submits itself again gives qsub the script alone, so the script must hold all options."""
    script, page = [(CONTRIB / "pbs" / name).read_text() for name in ("train.pbs", "README.md")]
    assert re.search(r"^#PBS -l select=", script, re.M) and re.search(r"^#PBS -l walltime=", script, re.M)
    submitted = re.findall(r"^(?:#| ) .*\bqsub (.*)", script, re.M) + re.findall(r"^ {4}.*\bqsub (.*)", page, re.M)
    assert submitted == ["train.pbs"] * 2


def test_htcondor_submit_file():
    """Checks the form only, because Debian 12 has no HTCondor."""
    lines = (CONTRIB / "htcondor/train.sub").read_text().splitlines()
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    assert lines.pop() == "queue"
    assert all(re.fullmatch(r"\w+ *= \S.*", line) for line in lines)


TEARDOWNS = r"destroy_process_group\(|end_training\("


def early_teardowns(text):
    """The teardowns that a program, or a difference, makes before it says that it is done."""
    done = text.find("job.done()")
    return [call[0] for call in re.finditer(TEARDOWNS, text) if 0 <= call.start() < done]


def test_a_program_is_done_before_its_teardown():
    """A teardown that hangs before job.done() costs the result of the training."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(CONTRIB.rglob("*.md"))]
    programs = [(path.name, text) for path in pages
                for text in re.findall(r"^```(?:python|diff)\n(.*?)^```", path.read_text(), re.S | re.M)]
    programs += [(path.name, path.read_text()) for path in sorted(CONTRIB.rglob("*.py"))]
    both = [(name, text) for name, text in programs if "job.done()" in text and re.search(TEARDOWNS, text)]
    assert {name for name, _ in both} >= {"README.md", "ddp.md", "fsdp.md", "accelerate.md"}
    assert not [(name, early_teardowns(text)) for name, text in both if early_teardowns(text)]


def test_pages_agree_on_whose_saves_are_needed():
    """Rank 0 alone writes a Checkpoint's whole state. Of a ShardedCheckpoint every rank writes a part."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs/python").glob("*.md"))]
    needs = {(path.name, kind, attach) for path in pages
             for text in re.findall(r"^```(?:python|diff)\n(.*?)^```", path.read_text(), re.S | re.M)
             for kind in re.findall(r"pch\.integrations\.torch import (\w+)", text)
             for attach in re.findall(r"pch\.attach\((.*?)\)", text)}
    assert needs == {("README.md", "Checkpoint", 'needs="rank0"'), ("ddp.md", "Checkpoint", 'needs="rank0"'),
                     ("fsdp.md", "ShardedCheckpoint", "")}


def test_an_early_teardown_is_found():
    assert early_teardowns(" dist.destroy_process_group()\n+job.done()\n") == ["destroy_process_group("]
