"""mteb: a model that `mteb.evaluate` takes, with its prompts for queries and passages."""

from pathlib import Path
from typing import Any

from ..encoders import TextEncoder
from ..encoders.base import prompts_of
from ..errors import OptionError, require
from ..types import Floats
from . import open_encoder, revision_of

require("mteb", extra="mteb", purpose="malmoi.integrations.mteb")

from mteb.models import ModelMeta  # noqa: E402
from mteb.models.abs_encoder import AbsEncoder  # noqa: E402
from mteb.models.model_meta import ScoringFunction  # noqa: E402
from mteb.types import PromptType  # noqa: E402


class MalmoiEncoder(AbsEncoder):
    """An encoder for `mteb.evaluate`; its revision tells results of other weights apart."""

    def __init__(self, model: str | Path | TextEncoder | None = None) -> None:
        self.encoder = open_encoder(model)
        self.model_prompts = dict(self.encoder.manifest.prompts)
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": f"malmoi/{self.encoder.name}",
                "revision": revision_of(self.encoder),
                "embed_dim": self.encoder.dimension,
                "max_tokens": self.encoder.max_tokens,
                "framework": ["ONNX"],
                "similarity_fn_name": ScoringFunction.COSINE,
                "use_instructions": bool(self.model_prompts),
            }
        )

    def encode(
        self,
        inputs: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        precision: str = "float32",
    ) -> Floats:
        """Encode the texts of a task's batches, (n, dim); `batch_size` has no effect."""
        if precision != "float32":
            raise OptionError(f"precision is {precision!r}; expected float32. Leave it out.")
        prompt = self.get_prompt_name(task_metadata, prompt_type)
        if prompt is None and prompt_type is not None:
            sides = prompts_of(self.encoder) or (None, None)
            prompt = sides[prompt_type is PromptType.document]
        texts = [text for batch in inputs for text in batch["text"]]
        return self.encoder.encode(texts, prompt=prompt, progress=show_progress_bar)
