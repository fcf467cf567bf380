#include "kernels/avx2/activations_body.h"
