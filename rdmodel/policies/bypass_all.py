"""Define the bypass of all loads."""

from __future__ import annotations

from typing import ClassVar

from rdmodel.common.late_dataclass import dataclass
from rdmodel.policies.base import Kind, Policy, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class BypassAll(Policy):
    """No L1 for loads: every load bypasses it (Khairy et al., section 3.1)."""

    name: ClassVar[str] = "bypass-all"
    kind: ClassVar[Kind] = "admission"

    def settings(self) -> Settings:
        """See `Policy.settings`."""
        return {"rule": "no-load"}
