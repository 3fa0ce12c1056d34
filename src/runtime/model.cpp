#include "runtime/model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace strata::runtime {

using device::BufferRef;

Model::Model(model::ModelSpec spec, plan::Plan plan, Devices devices)
    : spec_(std::move(spec)),
      plan_(std::move(plan)),
      cache_(plan_.n_kv_blocks, plan_.kv_block_tokens) {
  if (devices.size() != plan_.devices.size()) {
    fail(ErrorCode::internal, "{} devices for a plan over {}", devices.size(),
         plan_.devices.size());
  }
  for (auto& device : devices) {
    Place place;
    place.use.name = device->info().name;
    place.device = std::move(device);
    places_.push_back(std::move(place));
  }
}

Model::~Model() {
  // Queues may still work on the arenas: they go first.
  lanes_.clear();
}

std::unique_ptr<Model> Model::load(const gguf::File& file, model::ModelSpec spec, plan::Plan plan,
                                   Devices devices, const LoadOptions& options) {
  std::unique_ptr<Model> model(new Model(std::move(spec), std::move(plan), std::move(devices)));
  const auto check = [&](uint32_t d, const model::Lowered& lowered) {
    const device::Device& device = *model->places_[d].device;
    if (const std::string what = device.unsupported(lowered.program); !what.empty()) {
      fail(ErrorCode::unsupported, "device '{}' cannot run {}", device.info().name, what);
    }
  };
  for (const plan::Segment& segment : model->plan_.segments) {
    for (const plan::Member& member : segment.members) check(member.device, member.lowered);
  }
  for (const plan::HeadPart& part : model->plan_.head) check(part.device, part.lowered);
  check(model->plan_.hidden.device, model->plan_.hidden.lowered);
  model->allocate();
  model->load(file, options);
  model->compile();
  return model;
}

void Model::allocate() {
  for (size_t d = 0; d < places_.size(); ++d) {
    Place& place = places_[d];
    const plan::DeviceBytes& bytes = plan_.devices[d].bytes;
    const auto take = [&](uint64_t size, const char* purpose) {
      return size == 0 ? nullptr : place.device->allocate(size, purpose);
    };
    place.weights = take(bytes.weights, "weights");
    place.kv = take(bytes.kv, "the KV cache");
    place.activations = take(bytes.activations, "activations");
    place.boundary = take(bytes.boundary, "boundaries");
    place.logits = take(bytes.logits, "logits");
    place.scratch = take(bytes.scratch, "working memory");
  }
  std::vector<bool> works(places_.size(), false);
  for (const plan::Segment& segment : plan_.segments) {
    for (const plan::Member& member : segment.members) works[member.device] = true;
    for (const plan::SlotCopy& copy : segment.copies) works[copy.to] = true;
  }
  for (const plan::HeadPart& part : plan_.head) works[part.device] = true;
  for (uint32_t i = 0; i < plan_.pipeline.copies; ++i) {
    Lane lane;
    for (size_t d = 0; d < places_.size(); ++d) {
      lane.queues.push_back(works[d] ? places_[d].device->make_queue() : nullptr);
    }
    lanes_.push_back(std::move(lane));
  }
}

void Model::load(const gguf::File& file, const LoadOptions& options) {
  std::vector<DeviceLoad> loads;
  for (size_t d = 0; d < places_.size(); ++d) {
    Place& place = places_[d];
    if (!place.weights) continue;
    DeviceLoad load;
    load.device = plan_.devices[d].name;
    load.queue = lanes_[0].queues[d].get();
    load.parts = plan_.devices[d].weights;
    uint64_t offset = 0;
    for (const model::WeightPart& part : load.parts) {
      const uint64_t bytes = place.device->weight_bytes(model::spec_of(spec_, part));
      load.to.push_back({place.weights.get(), offset, bytes});
      offset += bytes;
    }
    place.weights_used = offset;
    place.weight_refs = load.to;
    loads.push_back(std::move(load));
  }
  load_weights(file, spec_, loads, options);
}

void Model::compile() {
  const auto compile_one = [&](uint32_t d, const model::Lowered& lowered, uint32_t kv_device,
                               uint32_t max_outputs) {
    Place& place = places_[d];
    Unit unit;
    unit.device = d;
    for (const device::KvLayer& layer : lowered.program.kv_layers) {
      Place& holder = places_[kv_device];
      const uint64_t bytes = layer.block_bytes() * plan_.n_kv_blocks;
      unit.kv.push_back({holder.kv.get(), holder.kv_used, bytes});
      holder.kv_used += bytes;
    }
    device::CompileArgs args;
    args.program = &lowered.program;
    const std::vector<model::WeightPart>& held = plan_.devices[d].weights;
    for (const model::WeightPart& part : lowered.weights) {
      const auto at = std::find(held.begin(), held.end(), part) - held.begin();
      args.weights.push_back(place.weight_refs[static_cast<size_t>(at)]);
    }
    args.kv_layers = unit.kv;
    args.max_tokens = plan_.max_tokens;
    args.max_outputs = max_outputs;
    unit.executable = place.device->compile(args);
    place.activations_used =
        std::max(place.activations_used,
                 place.device->activation_bytes(lowered.program, plan_.max_tokens, max_outputs));
    place.scratch_used =
        std::max(place.scratch_used,
                 place.device->scratch_bytes(lowered.program, plan_.max_tokens, max_outputs));
    return unit;
  };
  for (const plan::Segment& segment : plan_.segments) {
    std::vector<Unit> units;
    std::vector<uint32_t> devices;
    for (const plan::Member& member : segment.members) {
      units.push_back(
          compile_one(member.device, member.lowered, member.kv_device, plan_.max_outputs));
      devices.push_back(member.device);
    }
    segments_.push_back(std::move(units));
    segment_groups_.push_back(nullptr);
    if (devices.size() > 1) {
      Group& group = groups_[devices];
      if (!group.group) {
        group.group = std::make_shared<device::HostGroup>(static_cast<uint32_t>(devices.size()));
      }
      segment_groups_.back() = &group;
    }
  }
  for (const plan::HeadPart& part : plan_.head) {
    head_.push_back(compile_one(part.device, part.lowered, part.device, plan_.max_outputs));
    places_[part.device].logits_used = uint64_t{plan_.max_outputs} * part.vocabulary.size() * 4;
  }
  const plan::HiddenPart& hidden = plan_.hidden;
  hidden_ = compile_one(hidden.device, hidden.lowered, hidden.device, hidden.max_outputs);
  uint64_t& used = places_[hidden.device].logits_used;
  used = std::max(used, uint64_t{hidden.max_outputs} * spec_.n_embd * 4);
  hidden_row_bytes_ = used / 4 / plan_.max_outputs * 4;
  for (uint32_t d = 0; d < places_.size(); ++d) {
    if (plan_.devices[d].slots == 0) continue;
    const BufferRef last = slot(d, plan_.pipeline.copies - 1);
    places_[d].boundary_used = last.offset + last.bytes;
  }
  last_events_.resize(segments_.size());
  output_rows_.assign(plan_.max_outputs, false);
  host_row_.resize(spec_.n_vocab);
}

uint32_t Model::free_lanes() const {
  return static_cast<uint32_t>(
      std::count_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return !lane.busy; }));
}

BufferRef Model::slot(uint32_t device, uint32_t lane) const {
  const uint64_t bytes = uint64_t{plan_.max_tokens} * spec_.n_embd * 4;
  return {places_[device].boundary.get(), lane * bytes, bytes};
}

std::vector<MemoryAudit> Model::audit() const {
  std::vector<MemoryAudit> out;
  for (size_t d = 0; d < places_.size(); ++d) {
    const Place& place = places_[d];
    const plan::DeviceBytes& planned = plan_.devices[d].bytes;
    const auto add = [&](const char* purpose, uint64_t bytes, const auto& arena, uint64_t used) {
      out.push_back({plan_.devices[d].name, purpose, bytes, arena ? arena->size() : 0, used});
    };
    add("weights", planned.weights, place.weights, place.weights_used);
    add("kv", planned.kv, place.kv, place.kv_used);
    add("activations", planned.activations, place.activations, place.activations_used);
    add("boundary", planned.boundary, place.boundary, place.boundary_used);
    add("logits", planned.logits, place.logits, place.logits_used);
    add("scratch", planned.scratch, place.scratch, place.scratch_used);
    // What the device itself counts, whoever asked for it.
    out.push_back({plan_.devices[d].name, "all", planned.total(), place.device->allocated_bytes(),
                   place.weights_used + place.kv_used + place.activations_used +
                       place.boundary_used + place.logits_used + place.scratch_used});
  }
  return out;
}

std::vector<DeviceUse> Model::use() const {
  std::vector<DeviceUse> out;
  for (const Place& place : places_) out.push_back(place.use);
  return out;
}

void Model::reset_use() {
  for (Place& place : places_) {
    place.use.busy_seconds = place.use.copy_seconds = 0;
    place.use.runs = 0;
  }
}

}  // namespace strata::runtime
