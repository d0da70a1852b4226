"""Whether this machine can compute in bfloat16: some promise instructions that kill the process."""

import subprocess
import sys

from ..errors import OptionError

# Large enough that the matrix unit is used, should there be one.
_PROBE = (
    "import torch; a = torch.ones(256, 384, dtype=torch.bfloat16);"
    "b = torch.ones(512, 384, dtype=torch.bfloat16); print(float((a @ b.T)[0, 0]))"
)


def check_bfloat16() -> None:
    """Try a product in a process of its own, and raise an OptionError when that one dies.

    A virtual machine may show a processor's AMX and hide how to use it; the first product is
    then an illegal instruction, of which no program can say a word afterwards.
    """
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True)
    if done.returncode == 0 and done.stdout.strip() == "384.0":
        return
    raise OptionError(
        "schedule.bf16 is true, and a product in bfloat16 kills the process on this machine; "
        "expected one that works. Set schedule.bf16 to false, or leave the matrix unit out with "
        "the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16."
    )
