#include "kernels/avx512/single_body.h"
