"""The shared language of Toposcope: pure facts and derivations, no I/O, standard library only."""
