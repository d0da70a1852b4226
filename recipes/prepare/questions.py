"""What recipes/ko-qa.toml reads: questions made from texts that have none, in SQuAD's form.

    python recipes/prepare/questions.py --data DATA --out runs/ko-qa-data
    malmoi train recipes/ko-qa.toml --data runs/ko-qa-data

Three kinds, each in files of its own for train, dev and test (a text is in one of them only):

- cloze: a sentence of Korean Wikipedia or KLUE-NER with a name, date or number replaced by the word
  that asks for it (누구, 어디, 언제, 몇 …), some of its other words left out; the text is the
  sentence with its neighbours. The question repeats the text's own words: easier than a real one.
- statements: a true statement of BoolQ, in which a word that its paragraph has too is asked for. A
  person wrote the statement, so it says what the paragraph says in other words.
- leaflets: drug leaflets, asked by how they are built: who takes how much, how often, for what.

Every question has a twin without an answer: it is asked of a text of its kind that lacks it.
"""

import argparse
import hashlib
import json
import random
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kiwipiepy import Kiwi

from malmoi.heads.entity_files import read_marked
from malmoi.io.files import read_lines, writing
from malmoi.io.tables import read_rows

PARTS = {"dev": 0.05, "test": 0.1}  # the rest is trained on
ASKING = {"PS": "누구", "LC": "어디", "OG": "어느 곳", "DT": "언제", "TI": "언제"}
WHAT = "무엇"
SPAN = 5  # sentences of a text
DROPPED = 0.25  # words of a cloze question that are left out
MOST = {"wiki": 12000, "ner": 6000, "statements": 5000, "leaflets": 3000}

_DATE = re.compile(r"\d{3,4}년(?: \d{1,2}월(?: \d{1,2}일)?)?|\d{1,2}월 \d{1,2}일")
_NUMBER = re.compile(
    r"(\d[\d,.]*) ?(명|개|번|대|권|곳|년|살|세|위|회|km|m|kg|%|퍼센트|달러|원)(?![가-힣]{3})"
)
_ENDINGS = (("이다", "인가"), ("한다", "하는가"), ("된다", "되는가"), ("습니다", "습니까"))
# A particle after a word that ends in a vowel, and after one that ends in a consonant.
_PARTICLES = (("는", "은"), ("가", "이"), ("를", "을"), ("와", "과"), ("로", "으로"))
Kinds = dict[str, str]  # a name and what kind of thing it names


@dataclass(frozen=True)
class Asked:
    """A question with its text and the answer's place."""

    question: str
    context: str
    answer: str
    start: int


def replaced(sentence: str, start: int, end: int, word: str) -> str:
    """Put an asking word into a sentence, with the particle that it takes."""
    after = sentence[end:]
    closed = (ord(word[-1]) - 0xAC00) % 28 > 0
    for vowel, consonant in _PARTICLES:
        for one in (vowel, consonant):
            if re.match(rf"{one}(?![가-힣])", after):
                return (
                    sentence[:start] + word + (consonant if closed else vowel) + after[len(one) :]
                )
    if word == "언제" and re.match("에(?![가-힣])", after):
        after = after[1:]
    return sentence[:start] + word + after


def as_question(sentence: str) -> str:
    """Give a sentence a question's ending."""
    plain = sentence.strip().rstrip(".!? ")
    for ending, asked in (
        ("이다", "인가"),
        ("한다", "하는가"),
        ("된다", "되는가"),
        ("습니다", "습니까"),
    ):
        if plain.endswith(ending):
            return plain.removesuffix(ending) + asked + "?"
    if re.search("[았었했됐였왔갔겠있없]다$", plain):
        return plain[:-1] + "는가?"
    return plain + "?"


def shortened(sentence: str, word: str, random_: random.Random) -> str:
    """Leave some words of a question out, never the one that asks."""
    words = sentence.split()
    kept = [one for one in words if word in one or random_.random() >= DROPPED]
    return " ".join(kept if len(kept) >= 4 else words)


def spans(sentence: str) -> Iterator[tuple[int, int, str]]:
    """Find dates and numbers, with the words that ask for them."""
    taken: list[tuple[int, int]] = []
    for found in _DATE.finditer(sentence):
        taken.append(found.span())
        yield *found.span(), "언제"
    for found in _NUMBER.finditer(sentence):
        if not any(found.start() < end and start < found.end() for start, end in taken):
            yield *found.span(), f"몇 {found[2]}"


def cloze(
    before: list[str],
    sentence: str,
    after: list[str],
    span: tuple[int, int, str],
    rng: random.Random,
) -> Asked | None:
    """Ask for one span of a sentence, of the text that it stands in."""
    start, end, word = span
    context = " ".join([*before, sentence, *after])
    answer = sentence[start:end].strip()
    if context.count(answer) != 1:
        return None
    question = as_question(shortened(replaced(sentence, start, end, word), word.split()[0], rng))
    return Asked(question, context, answer, context.index(answer))


def from_wikipedia(
    data: Path, kinds: dict[str, str], kiwi: Kiwi, rng: random.Random
) -> Iterator[Asked]:
    """Ask for dates, numbers and known names in running text."""
    lines = [row["text"] for row in read_rows(data / "text/kowiki-sentences.tsv")]
    starts = rng.sample(range(len(lines) - SPAN), min(3 * MOST["wiki"], len(lines) - SPAN))
    for begin in starts:
        block = lines[begin : begin + SPAN]
        at = rng.randrange(SPAN)
        sentence = block[at]
        if not 25 <= len(sentence) <= 160:
            continue
        found = list(spans(sentence)) + list(names(sentence, kinds, kiwi))
        if found:
            asked = cloze(block[:at], sentence, block[at + 1 :], rng.choice(found), rng)
            if asked:
                yield asked


def names(sentence: str, kinds: Kinds, kiwi: Kiwi) -> Iterator[tuple[int, int, str]]:
    """Find proper nouns whose kind KLUE-NER knows."""
    for token in kiwi.tokenize(sentence):
        if token.tag == "NNP" and token.form in kinds and len(token.form) > 1:
            yield token.start, token.start + token.len, ASKING[kinds[token.form]]


def from_entities(data: Path, rng: random.Random) -> Iterator[Asked]:
    """Ask for the marked entities of KLUE-NER, among unrelated sentences."""
    marked = read_marked(data / "ner/klue-ner-dev.tsv")
    texts = [one.text for one in marked]
    for one in rng.sample(marked, len(marked)):
        known = [span for span in one.spans if span.type in ASKING and span.end - span.start > 1]
        for span in rng.sample(known, min(2, len(known))):
            others = rng.sample(texts, 3)
            at = rng.randrange(4)
            found = (span.start, span.end, ASKING[span.type])
            asked = cloze(others[:at], one.text, others[at:], found, rng)
            if asked:
                yield asked


def entity_kinds(data: Path) -> Kinds:
    """Give the names that KLUE-NER marks, each with its kind."""
    marked = read_marked(data / "ner/klue-ner-dev.tsv")
    return {
        one.text[span.start : span.end]: span.type
        for one in marked
        for span in one.spans
        if span.type in ("PS", "LC", "OG")
    }


def from_statements(
    data: Path, kinds: dict[str, str], kiwi: Kiwi, rng: random.Random
) -> Iterator[Asked]:
    """Ask for a word of a true statement that its paragraph has too, just once."""
    for row in read_rows(data / "contrast/kobest-boolq.tsv"):
        statement, context = row["question"], row["paragraph"]
        if row["answer"] != "TRUE":
            continue
        found = [(*span[:2], span[2]) for span in spans(statement)]
        for token in kiwi.tokenize(statement):
            form = token.form
            if token.tag in ("NNP", "NNG", "SL") and len(form) > 1 and context.count(form) == 1:
                word = ASKING.get(kinds.get(form, ""), WHAT)
                found.append((token.start, token.start + token.len, word))
        held = [one for one in found if context.count(statement[one[0] : one[1]].strip()) == 1]
        for start, end, word in rng.sample(held, min(2, len(held))):
            answer = statement[start:end].strip()
            question = as_question(replaced(statement, start, end, word))
            yield Asked(question, context, answer, context.index(answer))


# A leaflet's sentence, and the questions that its groups answer.
_LEAFLETS = (
    (
        r"^이 약은 (.{4,120}?)에 (?:사용|복용)합니다",
        ("이 약은 어디에 사용합니까?", "이 약의 효능은 무엇입니까?", "어떤 증상에 씁니까?"),
    ),
    (
        r"(?:성인|어른)[은는]? .*?1회 ([\d~½/.]+ ?(?:정|캡슐|포|병|매|mL|ml|mg|환))",
        ("성인은 한 번에 얼마나 복용합니까?", "어른의 1회 용량은?"),
    ),
    (
        r"(?:성인|어른)[은는]? .*?(1일 [\d~]+회)",
        ("성인은 하루에 몇 번 복용합니까?", "하루 몇 회 먹습니까?"),
    ),
    (r"복용 간격은 ([\d~]+시간 ?(?:이상)?)", ("복용 간격은 얼마입니까?", "몇 시간마다 먹습니까?")),
    (
        r"([가-힣\d, ]{2,40}) 환자는 이 약을 (?:복용|사용)하지",
        ("이 약을 쓰면 안 되는 사람은 누구입니까?", "누가 이 약을 먹으면 안 됩니까?"),
    ),
)


def from_leaflets(data: Path, rng: random.Random) -> Iterator[Asked]:
    """Ask leaflets what they say in a fixed form, each among sentences of others."""
    lines = [
        line for line in read_lines(data / "notes/korean-drug-leaflets.txt") if len(line) < 300
    ]
    quiet = [line for line in lines if not any(re.search(form, line) for form, _ in _LEAFLETS)]
    rng.shuffle(lines)
    for line in lines:
        for form, questions in _LEAFLETS:
            found = re.search(form, line)
            if found:
                parts = [*rng.sample(quiet, 2), line]
                rng.shuffle(parts)
                context = "\n".join(parts)
                start = context.index(line) + found.start(1)
                yield Asked(rng.choice(questions), context, found[1], start)


def cut(one: Asked, longest: int, rng: random.Random) -> Asked:
    """Keep so many characters of a text around the answer, cut at spaces."""
    spare = longest - len(one.answer)
    if not longest or len(one.context) <= longest or spare < 0:
        return one
    begin = max(0, one.start - rng.randint(0, spare))
    end = min(len(one.context), begin + longest)
    begin = one.context.find(" ", begin, one.start) + 1 if begin else 0
    last = one.context.rfind(" ", one.start + len(one.answer), end)
    context = one.context[begin : last if last >= 0 and end < len(one.context) else end]
    return Asked(one.question, context, one.answer, one.start - begin)


def part_of(context: str) -> str:
    """Put a text into train, dev or test, always the same."""
    at = int(hashlib.sha256(context.encode()).hexdigest()[:8], 16) / 16**8
    for part, share in PARTS.items():
        if at < share:
            return part
        at -= share
    return "train"


def write(name: str, asked: Iterable[Asked], out: Path, longest: int = 0) -> None:
    """Write a kind of questions by part, with the twins that have no answer.

    `longest` cuts the texts of train and dev to so many characters; test stays whole.
    """
    rng = random.Random(2)
    parts: dict[str, dict[str, list[Asked]]] = {"train": {}, "dev": {}, "test": {}}
    for one in asked:
        part = part_of(one.context)
        kept = one if part == "test" else cut(one, longest, rng)
        parts[part].setdefault(kept.context, []).append(kept)
    for part, texts in parts.items():
        paragraphs, order = [], list(texts)
        for i, (context, own) in enumerate(texts.items()):
            asked_here = [
                {"id": f"{name}-{part}-{i}-{j}", "question": one.question,
                 "answers": [{"text": one.answer, "answer_start": one.start}]}
                for j, one in enumerate(own)
            ]  # fmt: skip
            other = texts[order[i - 1]][0]
            if i % 2 and other.answer not in context:  # every second text
                asked_here.append(
                    {"id": f"{name}-{part}-{i}-none", "question": other.question, "answers": [],
                     "is_impossible": True}
                )  # fmt: skip
            paragraphs.append({"context": context, "qas": asked_here})
        count = sum(len(one["qas"]) for one in paragraphs)
        sys.stderr.write(f"{name}-{part}.json: {count:,} questions, {len(paragraphs):,} texts\n")
        data = {"version": "1", "data": [{"title": name, "paragraphs": paragraphs}]}
        with writing(out / f"{name}-{part}.json") as file:
            file.write(json.dumps(data, ensure_ascii=False).encode())


def first(found: Iterator[Asked], most: int) -> Iterator[Asked]:
    """The first so many, if there are."""
    yield from (one for _, one in zip(range(most), found, strict=False))


def main() -> None:
    """Write the questions of all kinds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--longest", type=int, default=0, help="cut texts that are trained on")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rng, kiwi = random.Random(1), Kiwi()
    kinds = entity_kinds(options.data)
    wiki = first(from_wikipedia(options.data, kinds, kiwi, rng), MOST["wiki"])
    entities = first(from_entities(options.data, rng), MOST["ner"])
    write("cloze", [*wiki, *entities], options.out, options.longest)
    statements = from_statements(options.data, kinds, kiwi, rng)
    write("statements", first(statements, MOST["statements"]), options.out, options.longest)
    leaflets = first(from_leaflets(options.data, rng), MOST["leaflets"])
    write("leaflets", leaflets, options.out, options.longest)


if __name__ == "__main__":
    main()
