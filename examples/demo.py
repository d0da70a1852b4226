"""The main job in one page: texts in two languages, made comparable by the model that ships."""

from pathlib import Path

import malmoi

PAIRS = [
    ("고양이가 창가에서 자고 있다.", "A cat is sleeping by the window."),
    ("고양이가 창가에서 자고 있다.", "주식 시장이 크게 올랐다."),
    ("당뇨병성 신증", "diabetic nephropathy"),
    ("당뇨병성 신증", "fracture of the wrist"),
]
QUESTIONS = [
    "When is my product getting delivered",
    "제 상품 언제 도착해요?",
    "비밀번호를 까먹었어요",
]


def main() -> None:
    encoder = malmoi.load()
    print(f"{encoder!r}\n")
    print("How alike are two texts?")
    for a, b in PAIRS:
        print(f"  {encoder.similarity(a, b):6.3f}  {a} | {b}")
    faq = (Path(__file__).parent / "faq.txt").read_text("utf-8").splitlines()
    scores = encoder.similarity(QUESTIONS, faq)
    print("\nWhich of six questions does a new one ask?")
    for question, row in zip(QUESTIONS, scores, strict=True):
        print(f"  {question}\n    → {faq[row.argmax()]}  ({row.max():.3f})")


if __name__ == "__main__":
    main()
