#pragma once
#include "kernels/jobs.h"
#include "kernels/matrix.h"

namespace cortiq::kernels {

/// The planes of a matrix that Fast mode multiplies with int8 activations (Matrix::integer()).
Planes planes_of(const Matrix& matrix);

/// Codes (signed, `groups`·32 of them, zeros beyond the columns) and group scales of one row of a block; Q8's row scale
/// is not among them (its group scales are 1). The definition that kernels are tested against.
void unpack_row(const Planes& weight, const Block& block, uint32_t row, int16_t* codes, float* scales) noexcept;

}  // namespace cortiq::kernels
