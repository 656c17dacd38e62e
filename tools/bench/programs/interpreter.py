"""Python with what any client of an API server needs, and nothing done with it."""

import http.client
import json
import ssl

from tools.bench.programs import done

LOADED = (http.client, json, ssl)


def main() -> int:
    """Only be there."""
    return done()
