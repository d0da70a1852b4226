"""Whether this machine can compute in bfloat16: some promise instructions that kill the process."""

import subprocess
import sys

from ..errors import OptionError

# Large enough that the matrix unit is used, should there be one.
_PROBE = (
    "import torch; a = torch.ones(256, 384, dtype=torch.bfloat16);"
    "b = torch.ones(512, 384, dtype=torch.bfloat16); print(float((a @ b.T)[0, 0]))"
)

_FAST = """
import torch
a = torch.randn(256, 384).bfloat16()
torch.nn.functional.linear(a, torch.randn(1536, 384).bfloat16())
raise SystemExit(0 if torch.cpu._is_amx_tile_supported() else 3)
"""


def check_bfloat16(setting: str = "schedule.bf16 is true") -> None:
    """Try a product in a process of its own, and raise an OptionError when that one dies.

    A virtual machine may show a processor's AMX and hide how to use it; the first product is
    then an illegal instruction, of which no program can say a word afterwards.
    """
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True)
    if done.returncode == 0 and done.stdout.strip() == "384.0":
        return
    raise OptionError(
        f"{setting}, and a product in bfloat16 kills the process on this machine; expected "
        "one that works. Choose float32 in the recipe, or leave the matrix unit out with "
        "the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16."
    )


def best_precision() -> str:
    """Say "bfloat16" where this machine's matrix units speed it up, else "float32".

    Tried in a process of its own: a virtual machine may promise AMX and hide its tile geometry,
    and then the first product dies of an illegal instruction.
    """
    tried = subprocess.run([sys.executable, "-c", _FAST], capture_output=True, check=False)
    return "bfloat16" if tried.returncode == 0 else "float32"
