"""The table of commands: what each is called, where it is, what it does, and an example of it.

`malmoi --help` is made of this table alone, so that it starts without importing any command.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A command at the top, or a group of commands."""

    panel: str
    module: str
    summary: str  # English; korean.tsv has it in Korean
    group: bool = False


_VECTORS, _SEARCH, _MEDICAL = "Vectors and similarity", "Documents and search", "Clinical text"
_TEXTS, _MODELS, _SERVE = "What texts are about", "Make and measure models", "Serve"

COMMANDS: dict[str, Entry] = {
    "encode": Entry(_VECTORS, "encode", "Turn texts into vectors."),
    "similarity": Entry(_VECTORS, "similarity", "Compare texts by the cosine of their vectors."),
    "classify-pair": Entry(_VECTORS, "similarity", "Label two texts: entailment, neutral, …"),
    "index": Entry(_SEARCH, "index", "Make files and folders searchable."),
    "search": Entry(_SEARCH, "search", "Find passages by meaning and by words."),
    "answer": Entry(_SEARCH, "answer", "Answer a question from a document or a corpus."),
    "rerank": Entry(_SEARCH, "rerank", "Sort texts by how well they answer a query."),
    "corpus": Entry(_SEARCH, "corpus", "List, show, check, copy or back up a corpus.", True),
    "link": Entry(_MEDICAL, "link", "Find the codes of medical terms."),
    "notes": Entry(_MEDICAL, "notes", "Read notes into codes, or hide who they are about.", True),
    "lexicon": Entry(_MEDICAL, "lexicon", "Build a lexicon from code tables, look into it.", True),
    "text": Entry(_TEXTS, "text", "Keywords, topics, and words in their sentence.", True),
    "tag": Entry(_TEXTS, "tag", "Find the entities of texts."),
    "classify": Entry(_TEXTS, "classify", "Decide what long notes or documents are."),
    "train": Entry(_MODELS, "train", "Train a model as a recipe says."),
    "evaluate": Entry(_MODELS, "evaluate", "Measure a model, and compare it with others."),
    "model": Entry(_MODELS, "model", "Describe or export a model, list its vocabulary.", True),
    "data": Entry(_MODELS, "data", "Find training pairs and hard negatives.", True),
    "serve": Entry(_SERVE, "serve", "Serve models, corpora and a page over HTTP, or MCP."),
    "key": Entry(_SERVE, "key", "Make keys for the server.", True),
}

# What commands of 0.2 are called now.
RENAMED = {
    "words": "text words",
    "keywords": "text keywords",
    "cluster": "text topics",
    "vocabulary": "model vocabulary",
    "info": "model info",
    "export": "model export",
    "mine": "data pairs",
    "negatives": "data negatives",
    "compare": "classify-pair",
    "terms": "lexicon nearest",
    "redact": "notes redact",
    "mcp": "serve --mcp",
    "lexicon learn": "notes learn",
    "link --note": "notes read",
    "link --notes": "notes read",
    "link --calibrate": "lexicon calibrate",
}

# What `malmoi` alone shows: each line works with what ships.
FIRST_STEPS = (
    ("Compare two sentences", 'malmoi similarity "고양이가 잔다" "The cat is asleep"'),
    ("Search the sample questions", 'malmoi search sample "비밀번호를 까먹었어요"'),
    ("Search a folder of your own", 'malmoi index docs.db FOLDER, then: malmoi search docs.db "…"'),
    ("Find the code of a term", 'malmoi link sample "DM nephropathy"'),
    ("Read a note", 'echo "pt는 DM nephropathy로 f/u 중" | malmoi notes read sample -'),
    (
        "See a word in its sentence",
        'malmoi text words "배를 탔다" "배가 달다" --word 배',
    ),
)

EXAMPLES = {
    "encode": "malmoi encode notes.txt --out notes.npy",
    "similarity": 'malmoi similarity "고양이가 잔다" "The cat sleeps" --calibrated',
    "classify-pair": 'malmoi classify-pair runs/nli/bundle "비가 온다" "땅이 젖는다"',
    "index": "malmoi index docs.db reports/ --include '*.pdf'",
    "search": 'malmoi search docs.db "환불 규정" --filter type=pdf',
    "answer": 'malmoi answer "복용 간격은?" leaflet.pdf',
    "rerank": 'malmoi rerank "환불 규정" answers.txt -k 3',
    "link": 'malmoi link sample "DM nephropathy"',
    "tag": 'malmoi tag runs/ncbi-disease/bundle "Familial adenomatous polyposis"',
    "classify": "malmoi classify runs/readmission/bundle note.txt --windows 3",
    "train": "malmoi train recipes/sts-cosent.toml --data DATA --set schedule.epochs=2",
    "evaluate": "malmoi evaluate ko-en-small --task sts --data sts.tsv",
    "serve": "malmoi serve --corpus docs.db --port 8080",
    "corpus list": "malmoi corpus list docs.db --folder hr/",
    "corpus show": "malmoi corpus show docs.db hr/leave.md",
    "corpus delete": "malmoi corpus delete docs.db hr/leave.md",
    "corpus stats": "malmoi corpus stats docs.db",
    "corpus check": "malmoi corpus check docs.db --repair",
    "corpus export": "malmoi corpus export docs.db --out docs.jsonl",
    "corpus copy": "malmoi corpus copy docs.db milvus:docs.milvus.db",
    "corpus upgrade": "malmoi corpus upgrade docs.db",
    "corpus backup": "malmoi corpus backup docs.db copy.db",
    "notes read": "malmoi notes read sample notes/ --out linked.jsonl",
    "notes find": "malmoi notes find linked.jsonl --code E11-E14 --notes notes/",
    "notes redact": "malmoi notes redact notes/ --out hidden/",
    "notes learn": "malmoi notes learn kcd.lexicon corrections.tsv --keep",
    "lexicon build": "malmoi lexicon build kcd.tsv --out kcd.lexicon",
    "lexicon add": "malmoi lexicon add kcd.lexicon our-names.tsv",
    "lexicon info": "malmoi lexicon info sample",
    "lexicon show": "malmoi lexicon show sample E11.9",
    "lexicon nearest": "malmoi lexicon nearest 당뇨병 --among sample -k 5",
    "lexicon ambiguous": "malmoi lexicon ambiguous sample",
    "lexicon calibrate": "malmoi lexicon calibrate kcd.lexicon dev.tsv",
    "lexicon export": "malmoi lexicon export sample --pairs --out pairs.tsv",
    "text keywords": "malmoi text keywords report.txt --top 5",
    "text topics": "malmoi text topics answers.txt --map topics.html",
    "text words": 'malmoi text words "배를 탔다" "배가 달다" --word 배 --layers 3',
    "model info": "malmoi model info ko-en-small",
    "model export": "malmoi model export klue/bert-base my-encoder --pooling mean --precision int8",
    "model vocabulary": "malmoi model vocabulary ko-en-small --grep ^배",
    "data pairs": "malmoi data pairs korean.txt english.txt",
    "data negatives": "malmoi data negatives pairs.tsv --out mined.tsv",
    "key add": "malmoi key add reader --file keys.tsv --corpus docs --allow search",
    "key list": "malmoi key list --file keys.tsv",
    "key revoke": "malmoi key revoke reader --file keys.tsv",
}
