"""python3 -m ffsoap_torch COMMAND ...  SPDX-License-Identifier: Apache-2.0"""
import importlib
import sys

from . import Refused

# a command is a module with a function `main` of the words behind it
COMMANDS = {"export": "a PyTorch module as a graph for ffsoap",
            "check": "what a plan's operators become in PyTorch"}


def main():
    words = sys.argv[1:]
    if not words or words[0] not in COMMANDS:
        text = "\n".join(f"  {name:8} {what}" for name, what in COMMANDS.items())
        helped = words[:1] in (["--help"], ["-h"])
        print(f"usage: python3 -m ffsoap_torch COMMAND ...\n{text}", file=sys.stdout if helped else sys.stderr)
        return 0 if helped else 2
    try:
        return importlib.import_module(f".{words[0]}", __package__).main(words[1:])
    except Refused as why:
        print(f"ffsoap_torch {words[0]}: {why}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
