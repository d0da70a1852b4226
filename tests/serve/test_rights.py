"""Keys with rights: what a key may call and see, and what is written down of it."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import pytest

from malmoi.clinical.reader import NoteReader
from malmoi.corpus import Corpus
from malmoi.errors import DataError, OptionError, OutputError
from malmoi.serve.api_keys import Key, KeyRing, Rights, make_key, read_keys, revoke_key
from malmoi.serve.audit import Audit
from malmoi.serve.settings import ServerSettings, Uploads
from malmoi.serve.state import Resources
from malmoi.terms import Linker
from tests.support.graphs import Run
from tests.support.lexicons import open_lexicon
from tests.support.servers import Answer, Served, serving, wait_for

GROUPS = ("hr", "board", "ward-3")
WORDS = ("boat", "pear", "배 달다", "고양이 잔다", "the cat sleeps")


@dataclass
class Guarded:
    """A server with keys, the groups of its documents, and where it writes."""

    server: Served
    keys: Path
    audit: Path
    groups: dict[str, set[str]]

    def key(self, name: str, **rights: object) -> str:
        """Make a key and wait until the server knows it."""
        made = make_key(name, self.keys, rate=100_000, rights=Rights(**rights))  # type: ignore[arg-type]
        self.server.state.keys.reload()  # type: ignore[union-attr]
        return made

    def ask(self, key: str, path: str, body: object | None = None) -> Answer:
        """Ask with a key."""
        method = "GET" if body is None else "POST"
        return self.server.ask(method, path, body, authorization=f"Bearer {key}")


@pytest.fixture(scope="module")
def guarded(resources: Resources, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder, rng = tmp_path_factory.mktemp("rights"), random.Random(0)
    groups: dict[str, set[str]] = {}
    corpora = {}
    for name in ("docs", "secrets"):
        corpora[name] = corpus = Corpus.open(folder / f"{name}.malmoi", resources.encoder)
        for i in range(120):
            own = groups[f"{name}-{i}"] = {one for one in GROUPS if rng.random() < 0.3}
            row = {"id": f"{name}-{i}", "title": f"Title {i}", "text": f"{rng.choice(WORDS)} {i}"}
            corpus.add([row | ({"groups": sorted(own)} if own else {})])
    lexicon = open_lexicon(folder / "lexicon").folder
    assert lexicon is not None
    served = Resources(
        resources.encoder,
        resources.reranker,
        corpora,
        {name: NoteReader(Linker(lexicon)) for name in ("kcd", "own")},
    )
    keys, audit = folder / "keys", folder / "audit.jsonl"
    make_key("everything", keys)
    settings = ServerSettings(keys=keys, audit=audit, uploads=Uploads())
    with serving(served, settings) as server:
        yield Guarded(server, keys, audit, groups)


def test_rights_are_kept_and_read(tmp_path: Path) -> None:
    file, day = tmp_path / "keys", date.today()
    rights = Rights(("hr", "faq"), ("kcd",), ("search",), (), day)
    first, second = make_key("a", file, rights=rights), make_key("b", file)
    ring = KeyRing.open(file)
    [a, b] = read_keys(file)
    assert a.rights == rights and b.rights == Rights() and ring.find(second) == b
    assert ring.find(first) == a  # good on its last day, and not after it
    late = Key("c", a.digest, 60, Rights(until=day - timedelta(days=1)))
    assert KeyRing([late]).find(first) is None
    for wrong in ({"corpora": ("a b",)}, {"allow": ("read",)}, {"groups": ("a,b",)}):
        with pytest.raises(OptionError):
            Rights(**wrong)  # type: ignore[arg-type]
    file.write_text(f"a\t{a.digest}\t60\tcorpora=hr colour=red\n", "utf-8")
    with pytest.raises(DataError, match="line 1 of .* is not a key"):
        read_keys(file)
    with pytest.raises(OptionError, match="no key named z; expected one of a"):
        file.write_text(f"a\t{a.digest}\t60\n", "utf-8")
        revoke_key("z", file)


def test_a_change_of_the_file_takes_effect_without_a_restart(tmp_path: Path) -> None:
    file, now = tmp_path / "keys", [0.0]
    key = make_key("a", file)
    ring = KeyRing(read_keys(file), file=file, clock=lambda: now[0])
    other = make_key("b", file)
    revoke_key("a", file)
    assert ring.find(key) and not ring.find(other)  # not yet looked
    now[0] += 2
    assert not ring.find(key) and ring.find(other)
    file.write_text("nonsense\n", "utf-8")
    now[0] += 2
    assert ring.find(other)  # what cannot be read changes nothing


def test_commands_add_list_and_revoke(run_here: Run, tmp_path: Path) -> None:
    add = ("key", "add", "nurse", "--file", "keys", "--rate", "60/m")
    done = run_here(*add, "--corpus", "hr", "--allow", "search,notes", "--until", "2999-01-01")
    assert done.returncode == 0 and done.stdout.startswith("mm_")
    [row] = [
        json.loads(line) for line in run_here("key", "list", "--file", "keys").stdout.splitlines()
    ]
    assert row == {
        "name": "nurse",
        "rate": 60,
        "rights": "corpora=hr allow=search,notes groups=- until=2999-01-01",
    }
    assert run_here("key", "add", "x", "--file", "keys", "--allow", "read").returncode == 1
    assert run_here("key", "add", "x", "--file", "keys", "--until", "soon").returncode == 2
    assert run_here("key", "revoke", "nurse", "--file", "keys").returncode == 0
    assert not run_here("key", "list", "--file", "keys").stdout
    assert run_here("key", "revoke", "nurse", "--file", "keys").returncode == 1


def test_a_key_calls_what_it_may(guarded: Guarded) -> None:
    key = guarded.key("searcher", allow=("search",))
    query, text = {"query": "boat", "corpus": "docs"}, {"input": ["boat"]}
    assert guarded.ask(key, "/v1/search", query).status == 200
    for path, body in (
        ("/v1/embeddings", text),
        ("/v1/words", {"texts": ["boat"]}),
        ("/v1/rerank", {"query": "a", "documents": ["b"]}),
        ("/api/embed", text),
        ("/v1/link", {"mentions": ["a"]}),
        ("/v1/documents", {"files": []}),
        ("/metrics", None),
    ):
        answer = guarded.ask(key, path, body)
        assert answer.status == 403 and answer.json["error"]["code"] == "not_allowed", path
    assert guarded.ask(guarded.key("notes", allow=("notes",)), "/v1/search", query).status == 403


def test_other_corpora_and_lexicons_are_not_named(guarded: Guarded) -> None:
    key = guarded.key("docs-only", corpora=("docs",), lexicons=("kcd",))
    about = guarded.ask(key, "/v1/info")
    assert [one["name"] for one in about.json["corpora"]] == ["docs"]
    assert [one["name"] for one in about.json["lexicons"]] == ["kcd"]
    other = guarded.ask(key, "/v1/search", {"query": "boat", "corpus": "secrets"})
    missing = guarded.ask(key, "/v1/search", {"query": "boat", "corpus": "nothing"})
    assert other.status == missing.status == 404 and other.body == missing.body
    assert guarded.ask(key, "/v1/link", {"mentions": ["a"], "lexicon": "own"}).status == 404
    for answer in (about, other):
        assert b"secrets" not in answer.body and b'"own"' not in answer.body


def test_searches_never_show_documents_of_other_groups(guarded: Guarded) -> None:
    rng = random.Random(1)
    keys = {
        tuple(own): guarded.key(f"k{i}", groups=tuple(own))
        for i, own in enumerate(([], ["hr"], ["board", "ward-3"], [*GROUPS], ["other"]))
    }
    for _ in range(60):
        own, key = rng.choice([*keys.items()])
        corpus = rng.choice(("docs", "secrets"))
        body = {
            "query": f"{rng.choice(WORDS)} {rng.randrange(120)}",
            "corpus": corpus,
            "k": 50,
            "mode": rng.choice(("hybrid", "dense", "keyword")),
            "group": rng.random() < 0.5,
            "rerank": rng.random() < 0.2,
        }
        found = guarded.ask(key, "/v1/search", body)
        assert found.status == 200, found.body
        ids = {one["id"] for one in found.json["groups"]}
        ids |= {one["id"] for one in found.json["hits"]}
        assert ids
        for id in ids:
            assert not guarded.groups[id] or guarded.groups[id] & {*own}, (own, id)


def test_no_other_door_shows_them(guarded: Guarded) -> None:
    key = guarded.key("ungrouped", groups=())
    plain = {id for id, own in guarded.groups.items() if not own and id.startswith("docs")}
    hidden = next(id for id, own in guarded.groups.items() if own and id.startswith("docs"))
    asked = {"corpus": "docs", "id": hidden, "number": 0}
    answer, nothing = (
        guarded.ask(key, "/v1/passages", asked | {"id": id}) for id in (hidden, "nobody")
    )
    assert answer.status == 404 and answer.body == nothing.body
    about = guarded.ask(key, "/v1/corpus", {"corpus": "docs"}).json
    assert about["documents"] == about["passages"] == len(plain)
    everything = make_and_ask(guarded)
    assert everything["documents"] == 120  # a description of one is not given to the other
    shown = guarded.ask(key, "/v1/map", {"corpus": "docs"}).json
    assert {one["id"] for one in shown["points"]} == plain and shown["documents"] == len(plain)
    counts = {one["name"]: one["documents"] for one in guarded.ask(key, "/v1/info").json["corpora"]}
    assert counts["docs"] == len(plain)
    filtered = guarded.ask(
        key, "/v1/search", {"query": "boat", "corpus": "docs", "filter": {"groups": "hr"}}
    )
    assert filtered.status == 400 and b"hr" not in filtered.body  # no field of that name


def make_and_ask(guarded: Guarded) -> dict[str, object]:
    """What a key with all rights is told of a corpus."""
    key = make_key(f"all-{time.monotonic_ns()}", guarded.keys)
    guarded.server.state.keys.reload()  # type: ignore[union-attr]
    answer = guarded.ask(key, "/v1/corpus", {"corpus": "docs"})
    found: dict[str, object] = answer.json
    return found


def test_what_a_group_uploads_is_the_groups(guarded: Guarded) -> None:
    hr, board = guarded.key("hr-up", groups=("hr",)), guarded.key("board-up", groups=("board",))
    file = {"name": "pear.txt", "content": "cGVhciBib2F0"}  # "pear boat"
    for key in (hr, board):  # the same name twice: neither sees or replaces the other's
        done = guarded.ask(key, "/v1/documents", {"corpus": "secrets", "files": [file]})
        assert done.status == 200 and done.json["files"][0]["error"] is None, done.body
    body = {"query": "pear boat", "corpus": "secrets", "k": 50, "type": "txt"}
    for key, own in ((hr, "uploads/hr-up/pear.txt"), (board, "uploads/board-up/pear.txt")):
        ids = {one["id"] for one in guarded.ask(key, "/v1/search", body).json["hits"]}
        assert {id for id in ids if id.startswith("uploads/")} == {own}


def test_the_audit_trail_says_who_asked_and_not_what(guarded: Guarded) -> None:
    key = guarded.key("asker", corpora=("docs",))
    secret = "아무도몰라야하는질문 pear"
    found = guarded.ask(key, "/v1/search", {"query": secret, "corpus": "docs", "k": 3}).json
    guarded.ask(key, "/v1/link/note", {"text": secret, "lexicon": "kcd"})
    guarded.ask(key, f"/v1/{secret.split()[0].encode().hex()}", {"query": secret})
    wait_for(lambda: guarded.audit.read_text("utf-8").count('"asker"') == 3)  # after the answers
    lines = [json.loads(line) for line in guarded.audit.read_text("utf-8").splitlines()]
    own = [one for one in lines if one["key"] == "asker"]
    assert {one["route"] for one in own} == {"/v1/search", "/v1/link/note", "-"}
    [search] = [one for one in own if one["route"] == "/v1/search"]
    assert search["corpus"] == "docs" and search["status"] == 200
    assert search["hits"] == len(found["hits"]) == 3
    assert set(search) == {"time", "key", "route", "corpus", "hits", "status", "ms"}
    text = guarded.audit.read_text("utf-8")
    assert (
        secret not in text and "pear" not in text and secret.split()[0].encode().hex() not in text
    )
    assert guarded.audit.stat().st_mode & 0o077 == 0


def test_the_audit_trail_rotates_and_says_when_it_cannot(tmp_path: Path) -> None:
    trail = Audit(tmp_path / "a.jsonl", size=400, files=2)
    for i in range(20):
        trail.write("key", "/v1/search", "docs", i, 200, 0.001)
    trail.close()
    assert {one.name for one in tmp_path.iterdir()} == {"a.jsonl", "a.jsonl.1", "a.jsonl.2"}
    with pytest.raises(OutputError, match="--audit FILE"):
        Audit(tmp_path / "no" / "a.jsonl")
