"""`toposcope uninstall`: look what there is (`plan`), then take it away in the right order (`carry_out`)."""
