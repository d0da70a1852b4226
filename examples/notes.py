"""Write made-up notes of many patients with readmission labels, for docs/notes.md and docs/learn.

    python examples/notes.py notes.jsonl [--patients 200] [--seed 0]

Nobody's record is in them: every sentence comes from the lists below. A patient has one to four
notes; whether the patient comes back within 30 days depends on how many warnings they contain, with
some chance, so that no rule is right about all of them. `days` is the length of the stay, which
warnings make longer, and `diagnoses` are what the notes mention, with a semicolon between.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

DIAGNOSES = [
    "CHF",
    "DM nephropathy",
    "COPD",
    "pneumonia",
    "AF",
    "고혈압",
    "만성 신부전",
    "뇌경색",
]
OPENING = [
    "{age}세 {sex}, {diagnosis}로 입원함.",
    "pt는 {diagnosis}로 f/u 중인 {age}세 {sex}임.",
    "{age}/{sex_short}, {diagnosis} 과거력 있음.",
]
PLAIN = [
    "V/S stable, 특이 호소 없음.",
    "식이 진행하며 경과 관찰함.",
    "혈압 {bp}/80, 체온 36.7도.",
    "CXR상 이전과 변화 없음.",
    "보호자와 함께 병동 보행함.",
    "혈당 {glucose} mg/dL로 측정됨.",
    "Lab: Cr {creatinine}, K 4.2.",
    "수면 양호하고 통증 호소하지 않음.",
    "재활 치료 예정대로 시행함.",
    "약물 복용법을 설명함.",
]
WARNINGS = [
    "호흡곤란이 다시 심해져 산소 요구량이 늘어남.",
    "퇴원약을 임의로 중단했다고 함.",
    "최근 6개월간 세 번째 입원임.",
    "체중이 사흘 사이 4 kg 늘고 하지 부종이 심함.",
    "혼자 살며 돌볼 사람이 없음.",
    "fever spike가 있어 항생제를 변경함.",
    "투석을 두 차례 거르고 응급실로 옴.",
    "intermittent chest pain이 계속됨.",
]
GOOD = [
    "산소 없이 SpO2 97% 유지됨.",
    "부종이 호전되어 이뇨제를 줄임.",
    "보호자가 복약을 매일 확인하기로 함.",
    "1주 뒤 외래 예약함.",
]


def notes_of(number: int, random: random.Random) -> Iterator[dict[str, object]]:
    """Yield the notes of one patient; all have the same label."""
    risk = random.choice([0, 0, 1, 2])
    returns = random.random() < (0.06, 0.5, 0.94)[risk]
    own = random.sample(DIAGNOSES, random.choice([1, 2]))
    facts = {
        "age": random.randint(35, 92),
        "sex": random.choice(["남자", "여자"]),
        "sex_short": random.choice(["M", "F"]),
    }
    warnings = random.sample(WARNINGS, 2 * risk)
    days = 2 + 3 * risk + random.randint(0, 4)
    for visit in range(random.randint(1, 4)):
        sentences = [random.choice(OPENING)]
        if visit == 0 and len(own) > 1:
            sentences.append(f"PMHx: {own[1]}.")
        sentences += random.sample(PLAIN, random.randint(4, 8))
        if visit == 0 or random.random() < 0.4:  # a warning may stand in any of the notes
            sentences += warnings
        if risk < 2:
            sentences += random.sample(GOOD, 2 - risk)
        body = sentences[1:]
        random.shuffle(body)
        values = facts | {
            "diagnosis": own[0] if visit == 0 else random.choice(own),
            "bp": random.randint(100, 160),
            "glucose": random.randint(90, 260),
            "creatinine": round(random.uniform(0.6, 3.5), 1),
        }
        yield {
            "patient_id": f"P{number:04}",
            "text": " ".join([sentences[0], *body]).format(**values),
            "readmitted": "yes" if returns else "no",
            "days": days,
            "diagnoses": "; ".join(own),
        }


def write_notes(path: str | Path, *, patients: int = 200, seed: int = 0) -> int:
    """Write the notes as JSON lines; gives how many there are."""
    chance = random.Random(seed)
    rows = [row for number in range(patients) for row in notes_of(number, chance)]
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    Path(path).write_text("".join(lines), "utf-8")
    return len(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write made-up notes with readmission labels.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--patients", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(f"{write_notes(given.file, patients=given.patients, seed=given.seed)} notes")
