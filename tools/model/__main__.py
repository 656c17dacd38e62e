"""`make model`: check in every state of the models what must never go wrong (docs/maintainers/verification.md)."""

import sys
import time

from tools.model.checker import MODELS, check


def main() -> int:
    """Check every model; 1 when one of them is broken."""
    failed = False
    for config in sorted(file.stem for file in MODELS.glob("*.cfg") if not file.stem.endswith(("Trace", "Simulated"))):
        module = next(file.stem for file in MODELS.glob("*.tla") if config.startswith(file.stem))
        began = time.monotonic()
        verdict = check(module, config)
        failed |= bool(verdict.broken)
        says = f"BROKEN: {verdict.broken}" if verdict.broken else "holds"
        print(f"{config}: {says}, {verdict.states:,} states, {time.monotonic() - began:.0f} s", flush=True)
        if verdict.broken:
            print(verdict.output)
    return failed


if __name__ == "__main__":
    sys.exit(main())
