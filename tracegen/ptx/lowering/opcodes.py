"""Map the known opcodes of PTX to the rules that lower them."""

from __future__ import annotations

from collections.abc import Callable

from tracegen.ptx.lowering.arithmetic import (
    FLOAT_OPCODES,
    INTEGER_OPCODES,
    translate_add_or_subtract,
    translate_arithmetic,
    translate_bit_mask,
    translate_extend,
    translate_funnel_shift,
    translate_lop3,
    translate_multiply,
    translate_permute,
)
from tracegen.ptx.lowering.asynchronous import (
    translate_clearing,
    translate_cluster_launch,
    translate_copy,
    translate_mbarrier,
    translate_signalling,
    translate_tensor_map,
)
from tracegen.ptx.lowering.conversion import (
    translate_convert,
    translate_move,
    translate_select,
    translate_select_by_sign,
    translate_set,
    translate_set_predicate,
    translate_test_property,
)
from tracegen.ptx.lowering.fragments import translate_fragment
from tracegen.ptx.lowering.matrices import (
    translate_elect,
    translate_load_matrix,
    translate_move_matrix,
    translate_product,
    translate_store_matrix,
)
from tracegen.ptx.lowering.memory_and_shuffles import (
    translate_active_mask,
    translate_atomic,
    translate_barrier,
    translate_convert_address,
    translate_get_rank,
    translate_is_space,
    translate_load,
    translate_map_address,
    translate_match,
    translate_multimem,
    translate_policy,
    translate_reduction,
    translate_shuffle,
    translate_store,
    translate_vote,
)
from tracegen.ptx.lowering.packed_bytes import translate_absolute_differences, translate_dot_product
from tracegen.ptx.lowering.tensor_memory import translate_tensor_memory
from tracegen.ptx.lowering.textures import translate_sample, translate_surface_load, translate_surface_store
from tracegen.ptx.lowering.translation import Translation

_IGNORED_OPCODES = (
    "membar",
    "fence",
    "prefetch",
    "prefetchu",
    "nanosleep",
    "pmevent",
    "applypriority",
    "discard",
    "griddepcontrol",
    "setmaxnreg",
)
"""Opcodes without an effect on values, addresses or control."""


def _emit_nothing(t: Translation) -> None:
    """Emit no step: memory order, hints and sleep change no value."""


OPCODE_RULES: dict[str, Callable[[Translation], None]] = {
    **dict.fromkeys(INTEGER_OPCODES, translate_arithmetic),
    **dict.fromkeys(FLOAT_OPCODES, translate_arithmetic),
    **dict.fromkeys(("add", "addc", "sub", "subc"), translate_add_or_subtract),
    **dict.fromkeys(("mul", "mad", "madc"), translate_multiply),
    **dict.fromkeys(("ld", "ldu"), translate_load),
    "atom": translate_atomic,
    "red": lambda t: translate_signalling(t, translate_atomic),
    **dict.fromkeys(("bar", "barrier"), translate_barrier),
    **dict.fromkeys(_IGNORED_OPCODES, _emit_nothing),
    "bmsk": translate_bit_mask,
    "szext": translate_extend,
    "shf": translate_funnel_shift,
    "prmt": translate_permute,
    "lop3": translate_lop3,
    **dict.fromkeys(("dp4a", "dp2a"), translate_dot_product),
    "vabsdiff4": translate_absolute_differences,
    "setp": translate_set_predicate,
    "set": translate_set,
    "selp": translate_select,
    "slct": translate_select_by_sign,
    "testp": translate_test_property,
    "mov": translate_move,
    "cvt": translate_convert,
    "cvta": translate_convert_address,
    "isspacep": translate_is_space,
    "st": lambda t: translate_clearing(t) if t.has("bulk") else translate_signalling(t, translate_store),
    "shfl": translate_shuffle,
    "vote": translate_vote,
    "match": translate_match,
    "activemask": translate_active_mask,
    **dict.fromkeys(("mma", "wgmma"), translate_product),
    "ldmatrix": translate_load_matrix,
    "stmatrix": translate_store_matrix,
    "movmatrix": translate_move_matrix,
    "elect": translate_elect,
    "wmma": translate_fragment,
    "redux": translate_reduction,
    "multimem": translate_multimem,
    "mapa": translate_map_address,
    "getctarank": translate_get_rank,
    "createpolicy": translate_policy,
    "clusterlaunchcontrol": translate_cluster_launch,
    **dict.fromkeys(("tex", "tld4"), translate_sample),
    "tcgen05": translate_tensor_memory,
    "suld": translate_surface_load,
    "sust": translate_surface_store,
    "cp": translate_copy,
    "mbarrier": translate_mbarrier,
    "tensormap": translate_tensor_map,
}
"""Lowering rules by opcode."""
