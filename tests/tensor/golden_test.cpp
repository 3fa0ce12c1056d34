// Models that another engine quantised out of the same weights.
#include <cmath>
#include <map>

#include "gguf/file.h"
#include "support.h"
#include "tensor/types.h"

namespace strata {
namespace {

gguf::File open_quant(const std::string& type) {
  return gguf::File::open(test::shared_path("models/quant/llama-gqa." + type + ".gguf"));
}

std::vector<float> values_of(const gguf::File& file, const gguf::TensorInfo& tensor) {
  std::vector<float> out(tensor.elements);
  dequantize(static_cast<ElementType>(tensor.type), file.data(tensor).data(), out.data(),
             out.size());
  return out;
}

// Normalised mean squared error a format may have on random weights: the square of its step over
// that of a uniform or normal distribution, with room. BF16 keeps 8 bits: 2^-18 / 3 at most.
struct Expected {
  const char* file;
  const char* type;
  double below;
  double above;  // and not so good that it would be another format
};

class GoldenTypes : public testing::TestWithParam<Expected> {};

TEST_P(GoldenTypes, HoldTheSameWeights) {
  STRATA_NEED_SHARED();
  const Expected& expected = GetParam();
  const gguf::File reference = open_quant("F16");
  const gguf::File file = open_quant(expected.file);
  const auto type = parse_type(expected.type);
  ASSERT_TRUE(type);
  size_t of_type = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    SCOPED_TRACE(tensor.name);
    const gguf::TensorInfo* same = reference.find_tensor(tensor.name);
    ASSERT_NE(same, nullptr);
    ASSERT_EQ(same->dims, tensor.dims);
    ASSERT_TRUE(all_finite(static_cast<ElementType>(tensor.type), file.data(tensor).data(),
                           tensor.elements));
    const auto a = values_of(file, tensor);
    const auto g = values_of(reference, *same);
    double error = 0;
    double norm = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      error += (a[i] - g[i]) * static_cast<double>(a[i] - g[i]);
      norm += g[i] * static_cast<double>(g[i]);
    }
    ASSERT_GT(norm, 0);
    if (tensor.type == static_cast<uint32_t>(*type)) {
      ++of_type;
      EXPECT_LT(error / norm, expected.below);
      EXPECT_GT(error / norm, expected.above);
    } else {
      EXPECT_EQ(tensor.type, 0u);  // norms stay F32
      EXPECT_LT(error / norm, 1e-7);
    }
  }
  EXPECT_GE(of_type, 8u);
}

INSTANTIATE_TEST_SUITE_P(
    Files, GoldenTypes,
    testing::Values(Expected{"BF16", "bf16", 1.3e-5, 1e-7}, Expected{"Q8_0", "q8_0", 1e-4, 1e-6},
                    Expected{"Q6_K", "q6_k", 1e-3, 1e-5}, Expected{"Q5_0", "q5_0", 4e-3, 1e-4},
                    Expected{"Q5_1", "q5_1", 4e-3, 1e-4}, Expected{"Q5_K_S", "q5_k", 4e-3, 1e-4},
                    Expected{"Q4_0", "q4_0", 1.5e-2, 1e-3}, Expected{"Q4_1", "q4_1", 1.5e-2, 1e-3},
                    Expected{"Q4_K_S", "q4_k", 1.5e-2, 1e-3},
                    Expected{"IQ4_NL", "iq4_nl", 1.5e-2, 1e-3},
                    Expected{"IQ4_XS", "iq4_xs", 1.5e-2, 1e-3},
                    Expected{"Q3_K_S", "q3_k", 5e-2, 5e-3}, Expected{"Q2_K", "q2_k", 0.15, 1e-2}),
    [](const auto& param) { return std::string(param.param.type); });

// A block that the common encoder made is a fixed point: its values give its bytes again.
TEST(GoldenEncoders, EncodeTheirOwnValuesToTheSameBytes) {
  STRATA_NEED_SHARED();
  for (const char* name : {"F16", "BF16", "Q8_0", "Q4_0"}) {
    const gguf::File file = open_quant(name);
    for (const gguf::TensorInfo& tensor : file.tensors()) {
      const auto values = values_of(file, tensor);
      const auto data = file.data(tensor);
      std::vector<std::byte> again(data.size());
      quantize(static_cast<ElementType>(tensor.type), values.data(), again.data(), values.size());
      EXPECT_TRUE(std::equal(data.begin(), data.end(), again.begin())) << name << tensor.name;
    }
  }
}

}  // namespace
}  // namespace strata
