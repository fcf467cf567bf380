#include "kernels/avx512/panels_body.h"
