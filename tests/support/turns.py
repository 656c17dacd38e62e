"""Leadership as tests want it."""


class Turns:
    """Begins and ends when a test says so."""

    def __init__(self, *, leads: bool = False) -> None:
        self.term = int(leads)
        self._leads = leads

    def may_write(self) -> bool:
        return self._leads

    def begin(self) -> None:
        self.term += 1
        self._leads = True

    def end(self) -> None:
        self._leads = False
