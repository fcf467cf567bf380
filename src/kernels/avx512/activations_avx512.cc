#include "kernels/avx512/activations_body.h"
