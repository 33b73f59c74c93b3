"""Codes of a worker that ended itself because something in it could not be stopped.

Nothing is wrong with the worker: its supervisor starts it again.
"""

EXIT_OVERRUN = 70
EXIT_UNSTOPPABLE = 71
EXIT_BROKEN = 72
