#include "kernels/avx512/ternary_body.h"
