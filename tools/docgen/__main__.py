"""Write the generated parts of docs/. `--check` writes nothing and names the pages that would change."""

import sys

from tools.docgen.pages import DOCS, outdated


def main(arguments: list[str]) -> int:
    """Write, or only look; 1 where `--check` finds a page that is not what the code says."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m tools.docgen [--check]", file=sys.stderr)
        return 2
    found = outdated()
    for name, text in found.items():
        if arguments:
            print(f"docs/{name} is not what the code says: make reference", file=sys.stderr)
        else:
            (DOCS / name).write_text(text, encoding="utf-8")
            print(f"docs/{name}")
    return 1 if arguments and found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
