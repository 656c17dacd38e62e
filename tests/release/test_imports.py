"""Imports of the package, those within functions and for types too."""

import grimp


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("toposcope", cache_dir=None)
    arrows = ((module, other) for module in graph.modules for other in graph.find_modules_directly_imported_by(module))
    back = ((module, graph.find_shortest_chain(other, module)) for module, other in arrows)
    assert [(module, *chain) for module, chain in back if chain] == []
