"""Plain fp32 oracles of the model families beside the flagship; contract in docs/model-format.md, "Other families"."""

from .drt_paper import DrtDecoder, DrtPaper
from .llama import LlamaModel
from .parts import Decoder
from .rat import RatModel
from .rattention import RattentionModel

MODELS = {"rat": RatModel, "rat-swa": RatModel, "rattention": RattentionModel, "drt-paper": DrtPaper,
          "llama": LlamaModel}


def family(config):
    """Of a config.json of ours or of the Hugging Face layout."""
    return config["model_type"] if "model_type" in config else config["architecture"]


def build(config, tensors):
    return MODELS[family(config)](config, tensors)


def decoder(model, mounted=()):
    return DrtDecoder(model, mounted) if isinstance(model, DrtPaper) else Decoder(model)
