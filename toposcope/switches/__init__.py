"""`toposcope switches`.

Hears to which switch and port each NIC of this machine is cabled, and says so on its Node.
"""
