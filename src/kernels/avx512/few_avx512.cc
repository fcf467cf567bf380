#include "kernels/avx512/few_body.h"
