"""What the controller writes, one module for each kind of object."""
