// The list of all cases, from the op table.
#include "device/op_case.h"

namespace strata::test {

const std::vector<OpCases>& all_op_cases() {
  static const std::vector<OpCases> all{
#define STRATA_OP(name, Type, text) {#name, #Type, &cases_##name},
#include "device/ops.def"
#undef STRATA_OP
  };
  return all;
}

}  // namespace strata::test
