"""The type in which a CPU multiplies: bf16 where oneDNN has it, with AVX-512. Elsewhere PyTorch converts number by number, which is much slower than fp32."""

import torch


def cpu_dtype():
    return torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32


def cpu_autocast():
    """Products in cpu_dtype()."""
    return torch.autocast("cpu", torch.bfloat16, enabled=cpu_dtype() == torch.bfloat16)
