"""`toposcope switches`: which switch and port each NIC of this machine is cabled to.

It writes what it finds to its Node.
"""
