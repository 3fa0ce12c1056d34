// strata synth: a model of random weights in a given shape, as a GGUF file.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "device/cpu/thread_team.h"
#include "gguf/writer.h"
#include "strata/model_shape.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

// Bytes made and written at once.
constexpr uint64_t k_slab_bytes = uint64_t{8} << 20;

}  // namespace

int synth_verb(const Options& options) {
  if (!options.output_file) fail(ErrorCode::usage, "no output given; use -o FILE");
  const auto model = make_synthetic(options);
  const uint32_t n_threads =
      options.threads ? static_cast<uint32_t>(*options.threads) : device::cpu::cpu_limits().usable;
  const uint64_t total = model->data_bytes();
  gguf::Writer writer(*options.output_file, model->metadata(), model->tensors());
  Progress progress("writing " + model->shape().name, total);
  std::vector<std::byte> slab(std::min(k_slab_bytes, total));
  uint64_t done = 0;
  for (size_t i = 0; i < model->tensors().size(); ++i) {
    const uint64_t bytes = model->tensor_bytes(i);
    for (uint64_t at = 0; at < bytes; at += slab.size()) {
      const auto part = std::span(slab).first(std::min<uint64_t>(slab.size(), bytes - at));
      model->fill(i, at, part, n_threads);
      writer.write(part);
      done += part.size();
      progress.update(done);
    }
  }
  writer.close();
  progress.done();
  log::info(
      "{}: {:.2f} M parameters in {}, {:.2f} bits each", model->shape().name,
      static_cast<double>(model::parameters(model->shape())) / 1e6, format_bytes(total),
      static_cast<double>(total) * 8 / static_cast<double>(model::parameters(model->shape())));
  return 0;
}

}  // namespace strata::app
