"""Where Toposcope is installed. Apart from the resource, because agents read it too."""

from typing import Final

HOME_NAMESPACE: Final = "toposcope-system"
"""Where the manifests install Toposcope."""
