#include "kernels/avx2/table_body.h"
