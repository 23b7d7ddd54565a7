"""Converts a published RAT+ or RAT checkpoint into a model directory (docs/importing.md).

    ls ratplus-1b        # the published checkpoint and LLaMA's SentencePiece model
      ratplus_1b.pt  tokenizer.model
    python train/import_checkpoint.py --from ratplus-hub ratplus-1b --out models/ratplus-1b
    python train/import_checkpoint.py --from rat-hub rat-1b --out models/rat-1b --dtype fp32 --json

The checkpoint is read as data: nothing in it is executed, and one that asks to run code is refused (exit code 4). All missing,
surplus and misshapen tensors are reported at once. --out is written completely or not at all. Values that neither the checkpoint's
configuration nor its shapes give are assumed and listed; correct them in config.json. Checksums of files are SHA-256. Documents are
bound to the fingerprint, which covers these files and the number format in which the model runs (recollect serve --dtype), so there
are two.
"""

import argparse
import json
import signal
import sys

import torch
from tqdm import tqdm

from importer.refusal import EXIT_CODES, Refusal
from importer.run import Options, run


def within(low, high):
    def number(text):
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{value} is not from {low} to {high}")
        return value

    return number


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="family", required=True, choices=["ratplus-hub", "rat-hub"],
                        help="layout, as published: ratplus-hub, or rat-hub (RAT, and its hybrids)")
    parser.add_argument("source", metavar="DIR", help="folder with one checkpoint (.pt, .pth, .ckpt, .bin) and tokenizer.model")
    parser.add_argument("--out", required=True, metavar="DIR", help="model directory to make; must be empty or absent")
    parser.add_argument("--dtype", choices=["bf16", "fp32"], default="bf16", help="number format of the weights written (default: bf16)")
    parser.add_argument("--head-dim", type=within(2, 4096), metavar="N",
                        help="width of a head, when the checkpoint has no configuration (default: 128)")
    parser.add_argument("--chunk", type=within(1, 1 << 24), metavar="N",
                        help="chunk length of a RAT model, when the checkpoint has no configuration")
    parser.add_argument("--json", action="store_true", help="report, and an error, as one line of JSON")
    arguments = vars(parser.parse_args())
    return arguments.pop("json"), Options(**arguments)


def show(report):
    config = report["config"]
    print(f"{report['out']}: {report['architecture']}, {config['layers']} layers of width {config['d']}, {report['tensors']} tensors, "
          f"{report['parameters']} parameters, {report['bytes'] / 2**20:.1f} MiB of {report['dtype']}")
    rows = [("checkpoint", report["checkpoint"])]
    rows += [("step", report["step"])] if "step" in report else []
    rows += [("assumed", text) for text in report["assumptions"]]
    rows += report["sha256"].items()
    rows += [(f"fingerprint, run in {dtype}", value) for dtype, value in report["fingerprint"].items()]
    for name, value in rows:
        print(f"{name:<24} {value}")


def convert(options):
    """The report; a bar on standard error while weights are written, if that is a terminal."""
    with tqdm(unit=" parameters", unit_scale=True, leave=False, disable=None) as bar:
        def progress(done, total):
            bar.total = total
            bar.update(done - bar.n)

        try:
            return run(options, progress)
        except KeyboardInterrupt:
            raise Refusal("CANCELLED", "the import was interrupted; nothing is left of it") from None


def main():
    as_json, options = parse()
    torch.set_num_threads(1)  # the disk is slower, and threads that wait for each other take the cores from others
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # takes away what was written, as Ctrl-C does
    try:
        report = convert(options)
    except Refusal as refusal:
        error = {"error": {"code": refusal.code, "message": refusal.message}}
        print(json.dumps(error, ensure_ascii=False) if as_json else f"import_checkpoint: {refusal}", file=sys.stderr)
        return EXIT_CODES[refusal.code]
    print(json.dumps(report, ensure_ascii=False, separators=(",", ":"))) if as_json else show(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
