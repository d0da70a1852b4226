"""docs/documents.md does what it says: its snippets run, and its table lists every type."""

import re
from pathlib import Path

import pytest

import malmoi
from malmoi.documents import supported_types
from tests.support import ROOT

PAGE = (ROOT / "docs/documents.md").read_text("utf-8")
SHIPPED = Path(malmoi.__file__).parent / "models/ko-en-small"


@pytest.mark.skipif(not SHIPPED.is_dir(), reason="the model ko-en-small is not in this checkout")
def test_the_snippets_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs/drafts").mkdir(parents=True)
    (tmp_path / "docs/guide.md").write_text("# 안내\n\n환불은 7일 안에 됩니다.\n", "utf-8")
    (tmp_path / "docs/drafts/old.md").write_text("옛 글", "utf-8")
    (tmp_path / "docs/empty.txt").touch()
    (tmp_path / "faq.csv").write_text("질문,답변,분류\n언제?,7일,결제\n", "utf-8")
    snippets = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(snippets) == 3
    names: dict[str, object] = {}
    for snippet in snippets:
        exec(compile(snippet, "documents.md", "exec"), names)
    assert capsys.readouterr().out.splitlines() == [
        "docs/empty.txt is empty; expected text. Check the file.",
        "guide.md ('안내',) None 환불은 7일 안에 됩니다.",
    ]
    assert names["passages"]


def test_the_table_lists_every_type_with_its_endings() -> None:
    table = PAGE[PAGE.index("| type |") : PAGE.index("The content decides")]
    for type, endings in supported_types().items():
        assert f"`{type}`" in table
        assert all(ending in table for ending in endings)
