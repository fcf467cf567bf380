#include "kernels/avx2/single_body.h"
