#pragma once
#include <cstddef>
#include <cstdint>

// What this machine can do at best, to measure kernels against: reading memory, and int8 multiply-adds from registers.
namespace cortiq::bench {

int64_t read_avx2(const uint8_t* data, size_t bytes);
int64_t read_avx512(const uint8_t* data, size_t bytes);

/// Returns the number of multiply-adds done.
double multiply_avx2(int rounds);
double multiply_avxvnni(int rounds);
double multiply_avx512(int rounds);
double multiply_avx512vnni(int rounds);

}  // namespace cortiq::bench
