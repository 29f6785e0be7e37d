"""Settings of hypothesis for people's machines: no deadlines, since no test asserts a time. Under CI its own hold."""

import os

from hypothesis import settings

if not os.environ.get("CI"):
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")
