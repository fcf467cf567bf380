#pragma once
#include "kernels/jobs.h"

// What both levels of AVX2 use, and AVX-512 too where wider vectors gain nothing.
namespace cortiq::kernels::avx2 {

void floating(const FloatJob& job) noexcept;
void widen(Format format, const uint8_t* from, uint64_t n, float* to) noexcept;
void decode(const IntegerJob& job, float* out, uint64_t pitch) noexcept;

}  // namespace cortiq::kernels::avx2
