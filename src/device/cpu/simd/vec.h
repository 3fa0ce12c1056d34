// The vector wrapper of the instruction set that is being compiled, named by STRATA_VECTORS.
#pragma once

#include STRATA_VECTORS
