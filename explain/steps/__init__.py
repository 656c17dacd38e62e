"""One file per question. Each has `look(case) -> Step`; `explain.diagnosis` asks them in their order."""
