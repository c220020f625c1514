"""The action's steps in a shell, the hooks as pre-commit calls them, the workflow that ``init`` writes, the image."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as Xml

import pytest
import yaml

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.conftest import Kbeval

N = 30
QRELS = "".join(f"q{i:02} 0 d{i} 1\n" for i in range(N))


def run_of(ranks: list[int]) -> str:
    """A run in which the answer of question i stands at ranks[i], of three."""
    return "".join(
        f"q{i:02} Q0 {f'd{i}' if place == rank else f'x{place}'} {place} {3 - place} t\n"
        for i, rank in enumerate(ranks)
        for place in (1, 2, 3)
    )


@pytest.fixture
def shell(kbeval: Kbeval) -> Shell:
    return Shell(kbeval)


class Shell:
    """Runs a step's script as GitHub's runner does, with its files in a folder of their own."""

    def __init__(self, kbeval: Kbeval) -> None:
        self.folder = kbeval.folder
        self.temp = kbeval.folder.parent / "runner"
        self.summary = self.temp / "summary.md"
        programs = self.temp / "kbeval" / "bin"
        programs.mkdir(parents=True)
        program = programs / "kbeval"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kbeval "$@"\n')
        program.chmod(0o755)
        self.environment = {
            **kbeval.environment,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }

    def __call__(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        file = self.temp / "script.sh"
        file.write_text(script)
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(file)],
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def action(project_root: Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((project_root / "action.yml").read_text())
    return read


def check_step(action: dict[str, Any], shell: Shell, **inputs: str) -> subprocess.CompletedProcess[str]:
    """The step that checks, with the inputs of a workflow and the defaults of the others."""
    known = {name: str(each.get("default", "")) for name, each in action["inputs"].items()}
    assert set(inputs) <= set(known)
    known.update(inputs)
    step = next(each for each in action["runs"]["steps"] if each.get("id") == "check")
    filled = {
        name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: known[found[1]], value)
        for name, value in step["env"].items()
    }
    assert not any("${{" in value for value in filled.values())
    return shell(step["run"], **filled)


def failures(junit: Path) -> list[str | None]:
    return [suite.get("failures") for suite in Xml.parse(junit).getroot().iter("testsuite")]


def test_the_action_is_well_formed(action: dict[str, Any]) -> None:
    steps = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite"
    assert {"runs", "qrels", "dataset", "baseline", "config", "junit", "version"} <= set(action["inputs"])
    for step in steps:
        # What is put into a script as text is executed; a composite step without a shell is refused by the runner.
        assert "${{" not in step.get("run", "")
        assert "uses" in step or step["shell"] == "bash"
    read = {name for step in steps for value in [*step.get("env", {}).values(), *step.get("with", {}).values()]
            for name in re.findall(r"inputs\.([a-z-]+)", str(value))}  # fmt: skip
    assert read == set(action["inputs"])


def test_the_action_passes_and_fails(action: dict[str, Any], shell: Shell) -> None:
    folder = shell.folder
    (folder / "kbeval.toml").write_text("[targets]\nmrr = 0.75\n[margins]\nmrr = 0.1\n")
    (folder / "qrels.txt").write_text(QRELS)
    for name in ("runs", "base"):
        (folder / name).mkdir()
    (folder / "base" / "a b.trec").write_text(run_of([1] * N))
    (folder / "runs" / "a b.trec").write_text(run_of([1] * (N - 2) + [2] * 2))

    done = check_step(action, shell, runs="  runs/*.trec\n\n", qrels="qrels.txt", baseline="base", junit="k.xml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "::notice title=kbeval check::2 gates: passed"
    assert "## kbeval check: 2 gates: passed" in shell.summary.read_text()
    assert failures(folder / "k.xml") == ["0"]

    # 20 of 30 answers fell to rank 2: 1 - 0.5 * 20 / 30 = 0.667, below the target and by more than the margin
    (folder / "runs" / "a b.trec").write_text(run_of([1] * (N - 20) + [2] * 20))
    done = check_step(action, shell, runs="runs/a b.trec", qrels="qrels.txt", baseline="base", junit="k.xml")
    assert done.returncode == 1, done.stderr
    errors = [line for line in done.stdout.splitlines() if line.startswith("::error ")]
    assert [line.split("::")[1] for line in errors] == ["error title=a b%3A missed", "error title=a b%3A regressed"]
    assert "0.667" in errors[0]
    assert shell.summary.read_text().count("## kbeval check") == 2
    assert "**regressed**" in shell.summary.read_text()
    assert failures(folder / "k.xml") == ["2"]

    done = check_step(action, shell, runs="runs/none*.trec", qrels="qrels.txt")
    assert (done.returncode, done.stdout) == (2, "")
    assert "runs/none*.trec" in done.stderr


def test_inputs_are_never_executed(action: dict[str, Any], shell: Shell) -> None:
    (shell.folder / "kbeval.toml").write_text("[targets]\nmrr = 0.75\n")
    evil = "$(touch pwned) `touch pwned` \"; touch pwned; ' --record ${HOME} & touch pwned"
    (shell.folder / evil).write_text(QRELS)
    done = check_step(action, shell, runs=f"{evil}.trec", qrels=evil)
    assert done.returncode == 2
    assert f"{evil}.trec: expected a readable file, found no such file" in done.stderr
    everywhere = dict.fromkeys(("qrels", "dataset", "baseline", "config", "junit"), f"x{evil}")
    assert check_step(action, shell, runs=f"--help\n{evil}", **everywhere).returncode == 2
    assert {each.name for each in shell.folder.iterdir()} == {"kbeval.toml", evil}


@pytest.mark.parametrize("version", ["", "9.9.9; touch pwned"])
def test_the_install_step(action: dict[str, Any], shell: Shell, version: str) -> None:
    """Which package it asks pip for; the python of the virtual environment only notes its arguments."""
    python = shell.temp / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    (shell.temp / "kbeval" / "bin" / "python").symlink_to(python)
    step = next(each for each in action["runs"]["steps"] if each.get("id") == "install")
    done = shell(step["run"], VERSION=version, ACTION="/the action", PATH=f"{shell.temp}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    package = f"kbeval=={version}" if version else "/the action"
    assert done.stdout.splitlines() == [
        "-m", "venv", f"{shell.temp}/kbeval", "-m", "pip", "install", "--quiet", package,
    ]  # fmt: skip


def test_the_hooks_take_file_names(project_root: Path, shell: Shell) -> None:
    hooks = {each["id"]: each for each in yaml.safe_load((project_root / ".pre-commit-hooks.yaml").read_text())}
    folder = shell.folder
    (folder / "kbeval.toml").write_text("[targets]\nmrr = 0.75\n")
    (folder / "qrels.txt").write_text(QRELS)
    (folder / "runs").mkdir()
    good, bad, broken = "runs/good.trec", "runs/bad.trec", "runs/broken.trec"
    (folder / good).write_text(run_of([1] * N))
    (folder / bad).write_text(run_of([3] * N))
    (folder / broken).write_text("q00 Q0 d0 1 high t\n")

    def call(hook: str, *files: str) -> subprocess.CompletedProcess[str]:
        assert all(re.search(hooks[hook]["files"], file) for file in files)
        assert not re.search(hooks[hook]["files"], "qrels/test.trec")
        # entry, then the user's args, then the changed files: as pre-commit puts them together
        return shell(shlex.join([*shlex.split(hooks[hook]["entry"]), "--qrels=qrels.txt", *files]))

    done = call("kbeval-doctor", good, broken)
    assert done.returncode == 2
    assert "runs/broken.trec, line 1" in done.stdout + done.stderr
    assert call("kbeval-doctor", good).returncode == 0
    done = call("kbeval-check", good, bad)
    assert done.returncode == 1
    assert "MISSED" in done.stdout


def test_the_workflow_that_init_writes(shell: Shell) -> None:
    assert (
        shell("kbeval init --workflow && test -f .github/workflows/kbeval.yml && kbeval init --example").returncode == 0
    )
    settings = shell.folder / "kbeval.toml"
    settings.write_text('[engines.bm25]\ntype = "bm25"\n[targets]\nmrr = 0.5\n[margins]\nmrr = 0.05\n')
    workflow = yaml.safe_load((shell.folder / ".github" / "workflows" / "kbeval.yml").read_text())
    (job,) = workflow["jobs"].values()
    install, evaluate, check = [step["run"] for step in job["steps"] if "run" in step]
    assert install == "python -m pip install kbeval"
    done = shell(evaluate)
    assert done.returncode == 0, done.stderr
    # what a team commits as its baseline, under the same names
    shutil.copytree(shell.folder / "out" / "pull-request" / "runs", shell.folder / "runs", dirs_exist_ok=True)
    done = shell(check)
    assert done.returncode == 0, done.stderr
    assert "2 gates: passed" in done.stdout
    assert "2 gates: passed" in shell.summary.read_text()
    assert (shell.folder / "out" / "kbeval.xml").exists()


def test_the_image_is_built_from_what_is_sent_to_it(project_root: Path) -> None:
    """The files that a build needs are not kept out by .dockerignore, and nobody runs it as root."""
    ignore = (project_root / ".dockerignore").read_text().split("\n")
    sent = {line.removeprefix("!") for line in ignore if line.startswith("!")}
    pyproject = (project_root / "pyproject.toml").read_text()
    assert {"pyproject.toml", "requirements.txt", "src", "corpus"} <= sent
    assert {name for name in ("README.md", "LICENSE") if f'"{name}"' in pyproject} <= sent
    last = (project_root / "Dockerfile").read_text().split("\nFROM ")[-1]
    assert re.search(r"^USER kbeval$", last, re.MULTILINE)
    assert last.index("USER") < last.index("ENTRYPOINT")
