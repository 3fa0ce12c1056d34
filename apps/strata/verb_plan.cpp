// strata plan: what every device would hold and how fast it would run, before a byte is read.
#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "engine/placement.h"
#include "model/header.h"
#include "model/synth.h"
#include "strata/model_shape.h"
#include "strata/open_engine.h"
#include "strata/output.h"
#include "strata/plan_report.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

struct Source {
  std::string name;
  model::ModelSpec spec;
  std::vector<std::string> notes;
};

Source source_of(const Options& options) {
  if (shape_instead_of_file(options)) {
    const auto synthetic = make_synthetic(options);
    return {synthetic->shape().name + " " + options.type,
            model::read_spec(model::open_synthetic(synthetic)),
            {}};
  }
  model::PartialModel model = model::open_header(options.model);
  Source source{std::filesystem::path(options.model).stem().string(), std::move(model.spec), {}};
  if (!model.note.empty()) source.notes.push_back(std::move(model.note));
  return source;
}

std::string parameters_text(uint64_t n) {
  const auto count = static_cast<double>(n);
  return n >= 1'000'000'000 ? fmt::format("{:.2f} G", count / 1e9)
                            : fmt::format("{:.2f} M", count / 1e6);
}

}  // namespace

int plan_verb(const Options& options) {
  const Source source = source_of(options);
  const PlacementOptions placement = placement_of(options);
  plan::Request request = request_of(placement);
  if (options.ctx_size) request.n_context = static_cast<uint64_t>(*options.ctx_size);
  if (options.n_sequences) request.n_sequences = static_cast<uint32_t>(*options.n_sequences);
  request.n_batch = static_cast<uint32_t>(options.batch_size);
  request.n_ubatch = static_cast<uint32_t>(options.ubatch_size);
  request.type_k = cache_type(options.cache_type_k, "-ctk");
  request.type_v = cache_type(options.cache_type_v, "-ctv");
  OpenDevices open = open_devices(placement, 0, false);
  know_speeds(open, placement, source.spec, /*always=*/true);
  const bool json = options.output_format == "json";
  try {
    const plan::Plan plan = plan::make(source.spec, open.descriptions, request);
    const std::vector<plan::Alternative> alternatives =
        plan::faster_alternatives(source.spec, open.descriptions, request, plan);
    const PlanReport report{plan,         request,      open.descriptions,
                            alternatives, source.notes, flags_of(plan, request, placement)};
    if (json) {
      Json out = plan_json(report);
      out.set("model", source.name);
      print(out.dump(2) + "\n");
    } else {
      print(fmt::format("{}: {} layers, {} parameters\n\n", source.name, source.spec.blocks.size(),
                        parameters_text(source.spec.parameters())));
      print(plan_table(report));
    }
    flush_output();
    return 0;
  } catch (const plan::Refusal& refusal) {
    if (!json) throw;
    print(refusal_json(refusal).dump(2) + "\n");
    flush_output();
    return exit_status(refusal.code());
  }
}

}  // namespace strata::app
