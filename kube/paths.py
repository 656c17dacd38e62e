"""Where the API server keeps what both programs ask for."""

from typing import Final

NODES: Final = "/api/v1/nodes"
