// Devices in words and models by shape, for tests of plans.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/description.h"
#include "model/synth.h"
#include "plan/plan.h"

namespace strata::plan::test {

inline model::ModelSpec spec_of(const model::Shape& shape, const char* mixture) {
  return model::read_spec(model::open_synthetic(
      std::make_shared<const model::SyntheticModel>(shape, model::find_mixture(mixture))));
}
inline model::ModelSpec spec_of(const char* shape, const char* mixture) {
  return spec_of(model::find_shape(shape), mixture);
}

// gpu0, gpu1, ..., cpu: as `strata plan -dev` names them, with all of their memory to use.
inline std::vector<device::Description> described(const std::vector<std::string>& words) {
  std::vector<device::Description> out;
  for (const std::string& word : words) {
    out.push_back(device::described_device(word, static_cast<uint32_t>(out.size())));
    if (word.starts_with("cpu:")) out.back().info.name = "cpu";
  }
  return out;
}

}  // namespace strata::plan::test
