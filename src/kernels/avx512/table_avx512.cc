#include "kernels/avx512/table_body.h"
