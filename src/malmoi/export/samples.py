"""Sentences that exported models are tried on."""

# Real words of both languages: the rounding of int8 is judged on them, and a tokenizer that
# does not know its own model's words would show here.
SAMPLES = (
    "배가 아파서 병원에 갔다.",
    "The ship left the harbour at dawn.",
    "pt는 DM nephropathy로 f/u 중",
    "Café, naïve, ｆｕｌｌ width — ㅋㅋ 1,234.5",
    "서울의 봄은 짧고, 여름은 길다. 그래도 사람들은 강가를 걷는다.",
    "How do I reset my password?",
    "비밀번호를 잊어버렸어요",
    "a",
)
