#include "runtime/model.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace strata::runtime {

using device::BufferRef;

Model::Model(model::ModelSpec spec, plan::Plan plan, std::unique_ptr<device::Device> device)
    : spec_(std::move(spec)),
      plan_(std::move(plan)),
      device_(std::move(device)),
      cache_(plan_.n_kv_blocks, plan_.kv_block_tokens) {
  weights_ = device_->allocate(plan_.bytes.weights, "weights");
  kv_ = device_->allocate(plan_.bytes.kv, "the KV cache");
  activations_ = device_->allocate(plan_.bytes.activations, "activations");
  boundary_ = device_->allocate(plan_.bytes.boundary, "stage outputs");
  logits_ = device_->allocate(plan_.bytes.logits, "logits");
  scratch_ = device_->allocate(plan_.bytes.scratch, "working memory");
  queue_ = device_->make_queue();
}

Model::~Model() {
  // The queue may still work on the arenas: it goes first.
  queue_.reset();
}

std::unique_ptr<Model> Model::load(const gguf::File& file, model::ModelSpec spec, plan::Plan plan,
                                   std::unique_ptr<device::Device> device,
                                   const LoadOptions& options) {
  for (const device::Program* program : {&plan.stage.program, &plan.head.program}) {
    if (const std::string what = device->unsupported(*program); !what.empty()) {
      fail(ErrorCode::unsupported, "device '{}' cannot run {}", device->info().name, what);
    }
  }
  std::unique_ptr<Model> model(new Model(std::move(spec), std::move(plan), std::move(device)));
  model->load_weights(file, options);
  model->compile();
  return model;
}

namespace {

// Pages of the file that are in memory beside the weights while they are stored.
constexpr uint64_t k_piece_bytes = uint64_t{64} << 20;

// Rows to store at a time: whole matrices while they fit a piece, else a multiple of the granule
// within one.
std::vector<device::RowRange> pieces_of(const device::WeightSpec& spec) {
  std::vector<device::RowRange> out;
  const uint64_t row = std::max<uint64_t>(row_bytes(spec.type, spec.dims[0]), 1);
  const uint64_t fit = std::max<uint64_t>(k_piece_bytes / row, device::k_row_granule);
  if (fit >= spec.dims[1]) {
    const uint64_t step = fit / spec.dims[1] * spec.dims[1];
    for (uint64_t r = 0; r < spec.rows(); r += step) {
      out.push_back({r, std::min(step, spec.rows() - r)});
    }
    return out;
  }
  const uint64_t step = fit / device::k_row_granule * device::k_row_granule;
  for (uint64_t matrix = 0; matrix < spec.rows(); matrix += spec.dims[1]) {
    for (uint64_t r = 0; r < spec.dims[1]; r += step) {
      out.push_back({matrix + r, std::min(step, spec.dims[1] - r)});
    }
  }
  return out;
}

}  // namespace

void Model::load_weights(const gguf::File& file, const LoadOptions& options) {
  std::set<model::WeightId> needed(plan_.stage.weights.begin(), plan_.stage.weights.end());
  needed.insert(plan_.head.weights.begin(), plan_.head.weights.end());
  uint64_t total = 0;
  for (const model::WeightId id : needed) total += spec_.weights[id].spec.bytes();

  weight_refs_.resize(spec_.weights.size());
  uint64_t offset = 0;
  uint64_t done = 0;
  for (const model::WeightId id : needed) {
    const uint64_t bytes = device_->weight_bytes(spec_.weights[id].spec);
    weight_refs_[id] = {weights_.get(), offset, bytes};
    offset += bytes;
    done = load_weight(file, spec_.weights[id], weight_refs_[id], options, done, total);
  }
}

// Returns the bytes done, this weight's included.
uint64_t Model::load_weight(const gguf::File& file, const model::Weight& weight,
                            const BufferRef& to, const LoadOptions& options, uint64_t done,
                            uint64_t total) {
  const gguf::TensorInfo& tensor = *file.find_tensor(weight.tensor);
  const std::span<const std::byte> data = file.data(tensor);
  if (data.empty()) {
    fail(ErrorCode::bad_file, "'{}' holds no data for tensor '{}': it is a header only",
         file.shards()[tensor.shard].path, tensor.name);
  }
  const device::WeightSpec& spec = weight.spec;
  const auto source_type = static_cast<ElementType>(tensor.type);
  // A part of a vector begins at an element, a part of a matrix at a row.
  const uint64_t begin = tensor.n_dims <= 1
                             ? row_bytes(source_type, weight.row_begin)
                             : row_bytes(source_type, tensor.dims[0]) * weight.row_begin;
  const uint64_t source_row = row_bytes(source_type, spec.dims[0]);
  std::vector<std::byte> staging;
  std::vector<float> widened;
  for (const device::RowRange& rows : pieces_of(spec)) {
    const uint64_t at = begin + rows.first * source_row;
    const uint64_t length = rows.count * source_row;
    const void* from =
        options.mmap ? data.data() + at : file.read(tensor, at, length, staging).data();
    if (source_type != spec.type) {
      widened.resize(rows.count * spec.dims[0]);
      dequantize(source_type, static_cast<const std::byte*>(from), widened.data(), widened.size());
      from = widened.data();
    }
    queue_->store_weight(spec, to, from, rows);
    queue_->synchronize();
    file.release(tensor, at, length);
    done += row_bytes(spec.type, spec.dims[0]) * rows.count;
    if (options.progress) options.progress(done, total);
  }
  file.release(tensor);
  return done;
}

void Model::compile() {
  uint64_t offset = 0;
  for (const device::KvLayer& layer : plan_.stage.program.kv_layers) {
    const uint64_t bytes = layer.block_bytes() * plan_.n_kv_blocks;
    kv_refs_.push_back({kv_.get(), offset, bytes});
    offset += bytes;
  }
  const auto compile_one = [&](const model::Lowered& lowered, const std::vector<BufferRef>& kv) {
    device::CompileArgs args;
    args.program = &lowered.program;
    for (const model::WeightId id : lowered.weights) args.weights.push_back(weight_refs_[id]);
    args.kv_layers = kv;
    args.max_tokens = plan_.max_tokens;
    args.max_outputs = plan_.max_outputs;
    return device_->compile(args);
  };
  stage_ = compile_one(plan_.stage, kv_refs_);
  head_ = compile_one(plan_.head, {});
  if (logits_->host() == nullptr) {
    host_logits_.resize(uint64_t{plan_.max_outputs} * spec_.n_vocab);
  }
}

void Model::copy_blocks(const std::vector<cache::PagedKv::BlockCopy>& copies) {
  for (const auto& copy : copies) {
    for (size_t i = 0; i < kv_refs_.size(); ++i) {
      const uint64_t bytes = plan_.stage.program.kv_layers[i].block_bytes();
      const BufferRef from{kv_.get(), kv_refs_[i].offset + copy.from * bytes, bytes};
      const BufferRef to{kv_.get(), kv_refs_[i].offset + copy.to * bytes, bytes};
      queue_->copy(to, from);
    }
  }
}

void Model::evaluate(std::span<const Chunk> chunks, const LogitsSink& sink, uint32_t units) {
  std::vector<Row> rows;
  for (size_t c = 0; c < chunks.size(); ++c) {
    for (const int32_t id : chunks[c].tokens) {
      if (id < 0 || static_cast<uint32_t>(id) >= spec_.n_vocab) {
        fail(ErrorCode::bad_request, "token {} does not exist: the vocabulary has {} tokens", id,
             spec_.n_vocab);
      }
    }
  }
  // Room for everything first, so that a full cache changes nothing.
  std::unordered_map<SequenceId, uint32_t> before;
  const auto restore = [&] {
    for (const auto& [sequence, length] : before) cache_.truncate(sequence, length);
  };
  try {
    for (size_t c = 0; c < chunks.size(); ++c) {
      const Chunk& chunk = chunks[c];
      const uint32_t start = cache_.length(chunk.sequence);
      before.try_emplace(chunk.sequence, start);
      copy_blocks(cache_.extend(chunk.sequence, static_cast<uint32_t>(chunk.tokens.size())));
      for (size_t t = 0; t < chunk.tokens.size(); ++t) {
        const bool last = t + 1 == chunk.tokens.size();
        const bool output =
            chunk.outputs == Outputs::all || (chunk.outputs == Outputs::last && last);
        rows.push_back(
            {c, t, chunk.tokens[t], static_cast<int32_t>(start + t), chunk.sequence, output});
      }
    }
    for (size_t at = 0; at < rows.size(); at += plan_.n_ubatch) {
      const size_t n = std::min<size_t>(plan_.n_ubatch, rows.size() - at);
      evaluate_rows(std::span(rows).subspan(at, n), sink, units);
    }
  } catch (...) {
    restore();
    throw;
  }
}

void Model::evaluate_rows(std::span<const Row> rows, const LogitsSink& sink, uint32_t units) {
  auto batch = std::make_shared<device::Batch>();
  std::vector<uint32_t> output_rows;
  std::unordered_map<SequenceId, uint32_t> tables;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const auto [found, fresh] =
        tables.try_emplace(row.sequence, static_cast<uint32_t>(batch->block_tables.size()));
    if (fresh) batch->block_tables.push_back(cache_.blocks(row.sequence));
    batch->tokens.push_back(row.id);
    batch->positions.push_back(row.position);
    batch->sequences.push_back(found->second);
    if (row.output) output_rows.push_back(i);
  }
  const BufferRef hidden{boundary_.get(), 0, boundary_->size()};
  const BufferRef logits{logits_.get(), 0, logits_->size()};
  device::RunArgs run;
  run.batch = batch;
  run.activations = {activations_.get(), 0, activations_->size()};
  run.scratch = {scratch_.get(), 0, scratch_->size()};
  run.externals = {hidden};
  run.units = units;
  queue_->run(*stage_, run);
  for (size_t at = 0; at < output_rows.size(); at += plan_.max_outputs) {
    const size_t n = std::min<size_t>(plan_.max_outputs, output_rows.size() - at);
    auto chosen = std::make_shared<device::Batch>();
    chosen->output_rows.assign(output_rows.begin() + static_cast<ptrdiff_t>(at),
                               output_rows.begin() + static_cast<ptrdiff_t>(at + n));
    run.batch = chosen;
    run.externals = {hidden, logits};
    queue_->run(*head_, run);
    const float* values = reinterpret_cast<const float*>(logits_->host());
    if (values == nullptr) {
      queue_->download(host_logits_.data(), {logits_.get(), 0, n * spec_.n_vocab * 4});
      values = host_logits_.data();
    }
    queue_->synchronize();
    for (size_t i = 0; i < n; ++i) {
      const Row& row = rows[output_rows[at + i]];
      sink(row.chunk, row.token, {values + i * spec_.n_vocab, spec_.n_vocab});
    }
  }
  queue_->synchronize();
}

}  // namespace strata::runtime
