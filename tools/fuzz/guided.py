"""`python -m tools.fuzz.guided SUBJECT [libFuzzer's flags]`.

Coverage chooses the cases of a subject (atheris).

The bytes that libFuzzer makes up are what the subject's cases are drawn from, so both ways try the
same things. The modules that read text are instrumented, as is the YAML reader in Python.
"""

import sys

import atheris

with atheris.instrument_imports(
    include=["toposcope", "yaml"],
    exclude=["toposcope.simulator.apiserver", "toposcope.simulator.nvml"],
):
    from tools.fuzz.run import PROFILE
    from tools.fuzz.subjects import SUBJECTS

from hypothesis import given


def main() -> None:
    """Fuzz until libFuzzer's limits are reached; a finding ends the process with an error."""
    subject = SUBJECTS[sys.argv[1]]

    @PROFILE
    @given(subject.cases)
    def attempt(case: object) -> None:
        try:
            subject.attempt(case)
        except Exception:
            print(f"case: {case!r}", file=sys.stderr)
            raise

    fuzz_one = attempt.hypothesis.fuzz_one_input  # type: ignore[attr-defined]  # hypothesis adds it when decorating
    atheris.Setup([sys.argv[0], *sys.argv[2:]], fuzz_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
