"""Plain fp32 oracles of the model families beside the flagship; contract in docs/model-format.md, "Other families"."""

from .drt_paper import DrtDecoder, DrtPaper
from .parts import Decoder
from .rat import RatModel
from .rattention import RattentionModel

MODELS = {"rat": RatModel, "rat-swa": RatModel, "rattention": RattentionModel, "drt-paper": DrtPaper}


def build(config, tensors):
    return MODELS[config["architecture"]](config, tensors)


def decoder(model, mounted=()):
    return DrtDecoder(model, mounted) if isinstance(model, DrtPaper) else Decoder(model)
