"""How one quantised matrix is stored: the packed elements, and the scales that go with them.

Every layout in use is a handful of tensors whose entries cover a rectangle of the matrix: one
entry an element, a row, a group of columns in a row, a block, or the whole matrix. Sizes are those
of the published files; the functions at the end name the layouts, after the tools that write them.
"""

from dataclasses import dataclass, replace

BFLOAT16_BITS = 16
FLOAT32_BITS = 32
INT32_BITS = 32
BYTE_BITS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensor:
    """One stored tensor: an entry of `bits` for each `rows` x `columns` of an (out, in) matrix.

    `rows` or `columns` None means all of them. `flat` counts along the flattened matrix instead.
    The tensor is stored in whole containers of `container` bits (int32 for packed integers).
    """

    bits: int
    rows: int | None = 1
    columns: int | None = 1
    flat: int = 0
    container: int = BYTE_BITS

    def size(self, out_features: int, in_features: int) -> int:
        """Bytes of the tensor for a matrix of this shape."""
        if self.flat:
            entries = -(-out_features * in_features // self.flat)
        else:
            down = 1 if self.rows is None else -(-out_features // self.rows)
            across = 1 if self.columns is None else -(-in_features // self.columns)
            entries = down * across
        return -(-entries * self.bits // self.container) * (self.container // BYTE_BITS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """The layout of one quantised matrix.

    `name` is what an answer calls it (`fp8`, `int4`, `nvfp4`). A matrix whose rows or columns are
    no multiple of `row_multiple` and `column_multiple` can't be packed and stays as it is.
    """

    name: str
    tensors: tuple[Tensor, ...]
    row_multiple: int = 1
    column_multiple: int = 1

    def takes(self, out_features: int, in_features: int) -> bool:
        """Whether a matrix of this shape can be stored so."""
        return not out_features % self.row_multiple and not in_features % self.column_multiple

    def size(self, out_features: int, in_features: int) -> int:
        """Bytes of one matrix, scales and all."""
        return sum(tensor.size(out_features, in_features) for tensor in self.tensors)


def _elements(bits: int, container: int = BYTE_BITS) -> Tensor:
    return Tensor(bits=bits, container=container)


def _of_row(bits: int) -> Tensor:
    return Tensor(bits=bits, columns=None)


def _of_group(bits: int, group_size: int) -> Tensor:
    return Tensor(bits=bits, columns=group_size if group_size > 0 else None)


def _of_matrix(bits: int) -> Tensor:
    return Tensor(bits=bits, rows=None, columns=None)


INPUT_SCALE = _of_matrix(FLOAT32_BITS)


def plain_elements(name: str, bits: int) -> Format:
    """Elements of `bits` and nothing else."""
    return Format(name=name, tensors=(_elements(bits),))


def per_tensor(name: str, bits: int, *, static_input: bool = False) -> Format:
    """One fp32 scale a matrix, and one for its input where that is quantised statically."""
    inputs = (INPUT_SCALE,) if static_input else ()
    return Format(name=name, tensors=(_elements(bits), _of_matrix(FLOAT32_BITS), *inputs))


def per_channel(
    name: str, bits: int, *, scale_bits: int = FLOAT32_BITS, static_input: bool = False
) -> Format:
    """One scale a row."""
    inputs = (INPUT_SCALE,) if static_input else ()
    return Format(name=name, tensors=(_elements(bits), _of_row(scale_bits), *inputs))


def per_block(
    name: str, bits: int, rows: int, columns: int, *, scale_bits: int = FLOAT32_BITS
) -> Format:
    """One scale a block; blocks at the edges are whole ones (DeepSeek-V3's fp8, 128 x 128)."""
    scales = Tensor(bits=scale_bits, rows=rows, columns=columns)
    return Format(name=name, tensors=(_elements(bits), scales))


def fp8_rows_fbgemm() -> Format:
    """FBGEMM's fp8: an fp32 scale a row; the bound of the inputs is in the config."""
    return per_channel("fp8", 8)


def microscaled(
    name: str, bits: int, group_size: int, *, global_scales: int = 0, scale_bits: int = 8
) -> Format:
    """One 8-bit scale a group of columns and `global_scales` fp32 ones a matrix.

    OCP MX v1.0: groups of 32, no global scale. NVFP4: groups of 16, a global scale for the weights
    and one for the inputs where they are quantised too.
    """
    whole = (_of_matrix(FLOAT32_BITS),) * global_scales
    return Format(name=name, tensors=(_elements(bits), _of_group(scale_bits, group_size), *whole))


def packed_groups(
    bits: int,
    group_size: int,
    *,
    zero_points: bool = False,
    group_index: bool = False,
    shape_bits: int = 2 * 64,
) -> Format:
    """compressed-tensors' `pack-quantized`: integers in int32, 16-bit scales a group, the shape.

    `group_size` 0 is one group a row. Zero points are packed too; with activation order there is
    an int32 group index a column.
    """
    tensors = [
        _elements(bits, INT32_BITS),
        _of_group(BFLOAT16_BITS, group_size),
        _of_matrix(shape_bits),
    ]
    if zero_points:
        tensors.append(replace(_of_group(bits, group_size), container=INT32_BITS))
    if group_index:
        tensors.append(Tensor(bits=INT32_BITS, rows=None))
    return Format(name=f"int{bits}", tensors=tuple(tensors))


def gptq(bits: int, group_size: int, *, group_index: bool = True) -> Format:
    """GPTQ's `qweight`, `qzeros`, `scales` and `g_idx`; group size -1 is one group a row.

    `qweight` packs along the columns, `qzeros` along the rows, so neither may leave a rest.
    """
    index = (Tensor(bits=INT32_BITS, rows=None),) if group_index else ()
    return Format(
        name=f"int{bits}",
        tensors=(
            _elements(bits, INT32_BITS),
            replace(_of_group(bits, group_size), container=INT32_BITS),
            _of_group(BFLOAT16_BITS, group_size),
            *index,
        ),
        row_multiple=8,
        column_multiple=8,
    )


def awq(bits: int, group_size: int) -> Format:
    """AWQ's `qweight`, `qzeros` and `scales`: GPTQ's without the index."""
    return gptq(bits, group_size, group_index=False)


def bitsandbytes_4bit(name: str, *, nested: bool, block: int = 64) -> Format:
    """Bitsandbytes' fp4 and nf4: a maximum a block, fp32 or itself quantised in blocks of 256.

    The code tables (16 values, and 256 of the nested maxima) and the state (a JSON text of about
    90 bytes) are stored once a matrix.
    """
    tables = [_of_matrix(16 * FLOAT32_BITS), _of_matrix(90 * BYTE_BITS)]
    if nested:
        maxima = [Tensor(bits=8, flat=block), Tensor(bits=FLOAT32_BITS, flat=block * 256)]
        tables.append(_of_matrix(256 * FLOAT32_BITS))
    else:
        maxima = [Tensor(bits=FLOAT32_BITS, flat=block)]
    return Format(name=name, tensors=(Tensor(bits=4, flat=1), *maxima, *tables))


def bitsandbytes_int8() -> Format:
    """Bitsandbytes' LLM.int8: an fp32 maximum a row and a byte naming the layout."""
    return Format(name="int8", tensors=(_elements(8), _of_row(FLOAT32_BITS), _of_matrix(8)))


def affine_groups(bits: int, group_size: int) -> Format:
    """MLX's affine mode: packed elements, a 16-bit scale and a 16-bit bias a group.

    MLX leaves matrices alone whose columns are no multiple of the group.
    """
    pair = _of_group(2 * BFLOAT16_BITS, group_size)
    return Format(
        name=f"int{bits}",
        tensors=(_elements(bits, INT32_BITS), pair),
        column_multiple=max(group_size, 1),
    )


def codebooks(bits: int, books: int, in_group: int, out_group: int) -> Format:
    """AQLM: an index a group into each codebook, the codebooks (fp16), an fp16 scale a row."""
    entries = books * 2**bits * in_group * out_group
    codes = Tensor(
        bits=books * (BYTE_BITS if bits <= BYTE_BITS else 2 * BYTE_BITS),
        rows=out_group,
        columns=in_group,
    )
    return Format(
        name=f"aqlm{bits}",
        tensors=(codes, _of_matrix(entries * BFLOAT16_BITS), _of_row(BFLOAT16_BITS)),
    )
