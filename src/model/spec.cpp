#include "model/spec.h"

namespace strata::model {

uint64_t ModelSpec::parameters() const {
  uint64_t total = 0;
  for (const Weight& weight : weights) total += weight.spec.dims[0] * weight.spec.rows();
  return total;
}

}  // namespace strata::model
