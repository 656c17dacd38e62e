"""One file per question. Each has `look(context) -> Step`; `toposcope.explain.diagnosis` asks them in their order."""
