"""Bytes of one quantised matrix, worked out by hand from what each tool's files hold.

The matrix is 4096 x 4096 (16,777,216 elements) unless a case says otherwise.
"""

import pytest

from app.core.formats import (
    Format,
    affine_groups,
    awq,
    bitsandbytes_4bit,
    bitsandbytes_int8,
    codebooks,
    gptq,
    microscaled,
    packed_groups,
    per_block,
    per_channel,
    per_tensor,
)

ELEMENTS = 4096 * 4096
CASES = [
    # One byte an element, one fp32 scale; a static input scale is four bytes more.
    ("fp8 a tensor", per_tensor("fp8", 8), 16_777_216 + 4),
    ("fp8 static", per_tensor("fp8", 8, static_input=True), 16_777_216 + 4 + 4),
    # 4096 fp32 scales.
    ("fp8 a row", per_channel("fp8", 8), 16_777_216 + 4096 * 4),
    ("int8 a row, bf16 scales", per_channel("int8", 8, scale_bits=16), 16_777_216 + 4096 * 2),
    # 32 x 32 blocks of 128 x 128, an fp32 scale each.
    ("fp8 blocks", per_block("fp8", 8, 128, 128), 16_777_216 + 32 * 32 * 4),
    # Half a byte an element, a byte per 16 in a row, two fp32 numbers.
    ("nvfp4", microscaled("nvfp4", 4, 16, global_scales=2), 8_388_608 + 4096 * 256 + 8),
    # A byte per 32 in a row.
    ("mxfp4", microscaled("mxfp4", 4, 32), 8_388_608 + 4096 * 128),
    ("mxfp8", microscaled("mxfp8", 8, 32), 16_777_216 + 4096 * 128),
    # qweight (512, 4096) int32; qzeros (32, 512) int32; scales (32, 4096) fp16; g_idx 4096 int32.
    (
        "gptq g128",
        gptq(4, 128),
        512 * 4096 * 4 + 32 * 512 * 4 + 32 * 4096 * 2 + 4096 * 4,
    ),
    # 3 bits in int32: 384 rows; one group of all columns: qzeros (1, 384), scales (1, 4096).
    ("gptq 3 bits", gptq(3, 0), 384 * 4096 * 4 + 384 * 4 + 4096 * 2 + 4096 * 4),
    # The same without g_idx.
    ("awq", awq(4, 128), 512 * 4096 * 4 + 32 * 512 * 4 + 32 * 4096 * 2),
    # weight_packed (4096, 512) int32; weight_scale (4096, 128) bf16; weight_shape two int64.
    ("packed g32", packed_groups(4, 32), 4096 * 512 * 4 + 4096 * 128 * 2 + 16),
    # Zero points (512, 128) int32 and an int32 a column besides.
    (
        "packed, asymmetric, by activation order",
        packed_groups(4, 32, zero_points=True, group_index=True),
        4096 * 512 * 4 + 4096 * 128 * 2 + 16 + 512 * 128 * 4 + 4096 * 4,
    ),
    # 262,144 blocks of 64: an fp32 maximum each; 16 fp32 codes; the state's text.
    ("nf4", bitsandbytes_4bit("nf4", nested=False), 8_388_608 + 262_144 * 4 + 64 + 90),
    # A byte a maximum, an fp32 per 256 of them, 256 codes for them.
    (
        "nf4, nested",
        bitsandbytes_4bit("nf4", nested=True),
        8_388_608 + 262_144 + 1024 * 4 + 64 + 90 + 1024,
    ),
    # SCB: 4096 fp32; one byte of weight_format.
    ("LLM.int8", bitsandbytes_int8(), 16_777_216 + 4096 * 4 + 1),
    # 64 groups a row, a bf16 scale and a bf16 bias each.
    ("MLX 4 bits g64", affine_groups(4, 64), 8_388_608 + 4096 * 64 * 4),
    ("MLX 3 bits g64", affine_groups(3, 64), ELEMENTS * 3 // 8 + 4096 * 64 * 4),
    # Codes (4096, 512, 1) int16; a codebook of 65,536 x 8 fp16; 4096 fp16 scales.
    ("aqlm 1x16", codebooks(16, 1, 8, 1), 4096 * 512 * 2 + 65_536 * 8 * 2 + 4096 * 2),
]


@pytest.mark.parametrize(("form", "size"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_matrix_takes_what_its_tensors_take(form: Format, size: int) -> None:
    assert form.size(4096, 4096) == size


def test_blocks_at_the_edges_are_whole_ones() -> None:
    # 576 x 7168 (DeepSeek-V3's kv_a_proj_with_mqa): 5 x 56 blocks.
    assert per_block("fp8", 8, 128, 128).size(576, 7168) == 576 * 7168 + 5 * 56 * 4


def test_packed_elements_fill_whole_containers() -> None:
    # 3 x 5 elements of 4 bits are 60 bits: two int32.
    assert packed_groups(4, 0, shape_bits=0).size(3, 5) == 8 + 3 * 2


def test_what_cannot_be_packed_is_not_taken() -> None:
    assert not affine_groups(4, 64).takes(100, 4304)
    assert affine_groups(4, 64).takes(1, 4096)
    assert not gptq(4, 128).takes(1, 2048)
    assert not gptq(4, 128).takes(2048, 4)
