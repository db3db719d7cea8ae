"""Prints the pins of every package the CPU environment needs, as installed in this interpreter.

Walks the requirements of gfcr and the extras below. Run it through `make lock`.
"""

import sys
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = "cpu,train,tracking,tensorboard,wandb,tasks,ray,slurm,search,tools,openenv,docs,dev"
OMITTED = {
    "torchvision": "breaks `import vllm` where it does not match torch, and gfcr does not use it",
    "torchaudio": "as torchvision",
    "torchcodec": "as torchvision",
    "gradio": "only pages of OpenEnv's servers ask for it, and it for an older pandas",
    "triton": "only xgrammar asks for it; vLLM runs without it on a CPU",
}


def pins(root: str) -> dict[str, str]:
    """Returns name -> version of everything reachable from a requirement such as `gfcr[dev]`."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    open_requirements = [Requirement(root)]
    while open_requirements:
        requirement = open_requirements.pop()
        name = canonicalize_name(requirement.name)
        if name in OMITTED:
            continue
        dist = distribution(name)
        found[name] = dist.version
        for extra in {"", *requirement.extras}:
            if (key := f"{name}[{extra}]") in seen:
                continue
            seen.add(key)
            for text in dist.requires or []:
                child = Requirement(text)
                if child.marker is None or child.marker.evaluate({"extra": extra}):
                    open_requirements.append(child)
    return found


def main() -> int:
    try:
        found = pins(f"gfcr[{EXTRAS}]")
    except PackageNotFoundError as missing:
        print(f"'{missing.name}' is required but not installed: pip install it.", file=sys.stderr)
        return 1
    del found["gfcr"]
    print(f"# The CPU environment: gfcr[{EXTRAS}]. Written by `make lock`; see README.md here.")
    print("# Left out on purpose:")
    for name, reason in OMITTED.items():
        print(f"#   {name}: {reason}")
    for name in sorted(found):
        print(f"{name}=={found[name]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
