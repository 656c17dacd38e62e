"""One file per question. Each has `look(case) -> Step`; `toposcope.explain.diagnosis` asks them in their order."""
