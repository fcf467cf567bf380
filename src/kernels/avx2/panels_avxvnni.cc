#include "kernels/avx2/panels_body.h"
