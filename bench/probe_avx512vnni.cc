#include <immintrin.h>

#include "probe.h"

namespace cortiq::bench {

double multiply_avx512vnni(int rounds) {
  __m512i a[12] = {};
  const __m512i x = _mm512_set1_epi32(0x01020304), y = _mm512_set1_epi32(0x7F010203);
  for (int round = 0; round < rounds; ++round) {
    // The twelve chains hide the latency; asm keeps the compiler from simplifying them.
    asm volatile(
        "vpdpbusd %13, %12, %0\n vpdpbusd %13, %12, %1\n vpdpbusd %13, %12, %2\n vpdpbusd %13, %12, %3\n"
        "vpdpbusd %13, %12, %4\n vpdpbusd %13, %12, %5\n vpdpbusd %13, %12, %6\n vpdpbusd %13, %12, %7\n"
        "vpdpbusd %13, %12, %8\n vpdpbusd %13, %12, %9\n vpdpbusd %13, %12, %10\n vpdpbusd %13, %12, %11"
        : "+v"(a[0]), "+v"(a[1]), "+v"(a[2]), "+v"(a[3]), "+v"(a[4]), "+v"(a[5]), "+v"(a[6]), "+v"(a[7]), "+v"(a[8]),
          "+v"(a[9]), "+v"(a[10]), "+v"(a[11])
        : "v"(x), "v"(y));
  }
  return 64.0 * 12 * rounds;
}

}  // namespace cortiq::bench
