#include "runtime/loader.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/start_thread.h"
#include "tensor/types.h"

namespace strata::runtime {
namespace {

using device::RowRange;

// Pages of the file that are in memory beside the weights while they are stored.
constexpr uint64_t k_piece_bytes = uint64_t{32} << 20;

// Rows to store at a time: whole matrices while they fit a piece, else a multiple of the granule
// within one.
std::vector<RowRange> pieces_of(const device::WeightSpec& spec) {
  std::vector<RowRange> out;
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

// Told by several threads, in one order.
class Progress {
 public:
  Progress(const LoadOptions& options, uint64_t total) : options_(options), total_(total) {}
  void add(uint64_t bytes) {
    if (!options_.progress) return;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    options_.progress(done_, total_);
  }

 private:
  const LoadOptions& options_;
  uint64_t total_;
  std::mutex mutex_;
  uint64_t done_ = 0;
};

// Memory that pieces pass through, kept from piece to piece.
struct Staging {
  // Not cleared: reading fills it.
  std::span<std::byte> raw(uint64_t bytes) {
    if (bytes > capacity) {
      read = std::make_unique_for_overwrite<std::byte[]>(bytes);
      capacity = bytes;
    }
    return {read.get(), bytes};
  }
  std::unique_ptr<std::byte[]> read;
  uint64_t capacity = 0;
  std::vector<std::byte> gathered;
  std::vector<float> widened;
};

// One part of a weight on its way to a device.
class PartLoad {
 public:
  PartLoad(const gguf::File& file, const model::ModelSpec& spec, const model::WeightPart& part,
           const device::BufferRef& to, const DeviceLoad& load, const LoadOptions& options)
      : file_(file),
        weight_(spec.weights[part.id]),
        part_(part),
        spec_(model::spec_of(spec, part)),
        tensor_(*file.find_tensor(weight_.tensor)),
        source_type_(static_cast<ElementType>(tensor_.type)),
        to_(to),
        device_(load.device),
        queue_(*load.queue),
        options_(options),
        pieces_(pieces_of(spec_)) {
    if (file.data(tensor_).empty()) {
      fail(ErrorCode::bad_file, "'{}' holds no data for tensor '{}': it is a header only",
           file.shards()[tensor_.shard].path, tensor_.name);
    }
    const uint64_t row = row_bytes(source_type_, weight_.spec.dims[0]);
    // A part of a vector begins at an element, a part of a matrix at a row.
    begin_ = tensor_.n_dims <= 1 ? row_bytes(source_type_, weight_.row_begin)
                                 : row_bytes(source_type_, tensor_.dims[0]) * weight_.row_begin;
    source_row_ = row;
  }

  size_t n_pieces() const { return pieces_.size(); }
  const gguf::TensorInfo& tensor() const { return tensor_; }
  const device::WeightSpec& spec() const { return spec_; }

  // Brings a piece into memory; what is in `staging` must stay until it has been stored.
  void prepare(size_t index, Staging& staging) {
    const RowRange& rows = pieces_[index];
    const uint64_t first = source_row_of(rows.first);
    const uint64_t last = source_row_of(rows.first + rows.count - 1);
    Piece& piece = ready_[index % 2];
    piece.rows = rows;
    piece.at = begin_ + first * source_row_;
    piece.length = (last + 1 - first) * source_row_;
    if (options_.mmap || file_.made()) {
      piece.from = file_.data(tensor_).data() + piece.at;
    } else {
      const std::span<std::byte> to = staging.raw(piece.length);
      file_.read(tensor_, piece.at, to);
      piece.from = to.data();
    }
    const bool whole_columns = part_.columns.size() == weight_.spec.dims[0];
    if (!whole_columns || last + 1 - first != rows.count) {
      piece.from = gather(rows, first, piece.from, staging.gathered);
    }
    if (source_type_ != spec_.type) {
      staging.widened.resize(rows.count * spec_.dims[0]);
      dequantize(source_type_, piece.from, staging.widened.data(), staging.widened.size());
      piece.from = reinterpret_cast<const std::byte*>(staging.widened.data());
    }
  }
  // Queues a piece that is prepared; finish() must follow before the next. Returns its bytes.
  uint64_t start(size_t index) {
    const Piece& piece = ready_[index % 2];
    queue_.store_weight(spec_, to_, piece.from, piece.rows);
    return row_bytes(spec_.type, spec_.dims[0]) * piece.rows.count;
  }
  void finish() {
    const auto name_it = [&](ErrorCode code, const char* what) {
      fail(code, "device '{}', tensor '{}': {}", device_, printable(tensor_.name), what);
    };
    try {
      queue_.synchronize();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::bad_file) throw;  // the file's fault, not the device's
      name_it(error.code(), error.what());
    } catch (const std::exception& error) {
      name_it(ErrorCode::internal, error.what());
    }
  }
  // Pages of a stored piece are not needed any more.
  void release(size_t index) const {
    const Piece& piece = ready_[index % 2];
    file_.release(tensor_, piece.at, piece.length);
  }

 private:
  // A piece in memory.
  struct Piece {
    RowRange rows;
    const std::byte* from = nullptr;
    uint64_t at = 0, length = 0;  // in the tensor's bytes
  };

  // Row of the whole weight, counted through its matrices, of a row of the part.
  uint64_t source_row_of(uint64_t row) const {
    const uint64_t matrix = part_.matrices.begin + row / spec_.dims[1];
    return matrix * weight_.spec.dims[1] + part_.rows.begin + row % spec_.dims[1];
  }
  // The rows of a piece, or parts of them, one after another. `from` holds those from `first` on.
  const std::byte* gather(const RowRange& rows, uint64_t first, const std::byte* from,
                          std::vector<std::byte>& gathered) {
    const uint64_t skip = row_bytes(source_type_, part_.columns.begin);
    const uint64_t bytes = row_bytes(source_type_, part_.columns.size());
    gathered.resize(rows.count * bytes);
    for (uint64_t r = 0; r < rows.count; ++r) {
      const uint64_t source = source_row_of(rows.first + r) - first;
      std::memcpy(gathered.data() + r * bytes, from + source * source_row_ + skip, bytes);
    }
    return gathered.data();
  }

  const gguf::File& file_;
  const model::Weight& weight_;
  const model::WeightPart& part_;
  device::WeightSpec spec_;
  const gguf::TensorInfo& tensor_;
  ElementType source_type_;
  device::BufferRef to_;
  const std::string& device_;
  device::Queue& queue_;
  const LoadOptions& options_;
  std::vector<RowRange> pieces_;
  uint64_t begin_ = 0, source_row_ = 0;
  Piece ready_[2];
};

// One device's parts, none of whose tensors another device needs. While a piece is stored the next
// one is read.
void load_alone(const gguf::File& file, const model::ModelSpec& spec, const DeviceLoad& load,
                const LoadOptions& options, Progress& progress) {
  Staging staging[2];
  size_t turn = 0;
  std::unique_ptr<PartLoad> part, next;
  const auto begin = [&](size_t i) {
    auto out = std::make_unique<PartLoad>(file, spec, load.parts[i], load.to[i], load, options);
    if (out->n_pieces() > 0) out->prepare(0, staging[turn++ % 2]);
    return out;
  };
  for (size_t i = 0; i < load.parts.size(); ++i, part = std::move(next)) {
    if (part == nullptr) part = begin(i);
    for (size_t piece = 0; piece < part->n_pieces(); ++piece) {
      const uint64_t bytes = part->start(piece);
      std::exception_ptr error;
      try {
        if (piece + 1 < part->n_pieces()) {
          part->prepare(piece + 1, staging[turn++ % 2]);
        } else if (i + 1 < load.parts.size() && !file.made()) {
          // What is made is made tensor by tensor, and gone when this one is released.
          next = begin(i + 1);
        }
      } catch (...) {
        error = std::current_exception();
      }
      part->finish();  // also before an error leaves: the queue works on what is staged
      if (error) std::rethrow_exception(error);
      file.check(part->tensor());  // at once: the rest of a large file takes long
      part->release(piece);
      progress.add(bytes);
    }
    file.release(part->tensor());
  }
}

// Tensor by tensor, the parts of all devices side by side.
void load_together(const gguf::File& file, const model::ModelSpec& spec,
                   const std::vector<DeviceLoad>& loads, const LoadOptions& options,
                   Progress& progress) {
  std::map<model::WeightId, std::vector<std::pair<const DeviceLoad*, size_t>>> by_weight;
  for (const DeviceLoad& load : loads) {
    for (size_t i = 0; i < load.parts.size(); ++i) {
      by_weight[load.parts[i].id].emplace_back(&load, i);
    }
  }
  std::vector<Staging> staging;
  for (const auto& [id, users] : by_weight) {
    std::vector<std::unique_ptr<PartLoad>> parts;
    staging.resize(std::max(staging.size(), users.size()));
    size_t most = 0;
    for (const auto& [load, i] : users) {
      parts.push_back(
          std::make_unique<PartLoad>(file, spec, load->parts[i], load->to[i], *load, options));
      most = std::max(most, parts.back()->n_pieces());
    }
    for (size_t piece = 0; piece < most; ++piece) {
      uint64_t bytes = 0;
      std::exception_ptr error;
      for (size_t p = 0; p < parts.size(); ++p) {
        PartLoad* part = parts[p].get();
        if (piece >= part->n_pieces() || error) continue;
        try {
          part->prepare(piece, staging[p]);
          bytes += part->start(piece);
        } catch (...) {
          error = std::current_exception();
        }
      }
      // Their memory must stay until every queue has passed it.
      for (auto& part : parts) {
        try {
          part->finish();
        } catch (...) {
          if (!error) error = std::current_exception();
        }
      }
      if (error) std::rethrow_exception(error);
      file.check(parts[0]->tensor());
      progress.add(bytes);
    }
    file.release(parts[0]->tensor());
  }
}

}  // namespace

namespace {

void load_all(const gguf::File& file, const model::ModelSpec& spec,
              const std::vector<DeviceLoad>& loads, const LoadOptions& options) {
  uint64_t total = 0;
  std::map<std::string, size_t> user;  // of each tensor: the device
  bool shared = false;
  for (size_t d = 0; d < loads.size(); ++d) {
    for (const model::WeightPart& part : loads[d].parts) {
      total += model::spec_of(spec, part).bytes();
      const auto [found, fresh] = user.try_emplace(spec.weights[part.id].tensor, d);
      shared = shared || (!fresh && found->second != d);
    }
  }
  Progress progress(options, total);
  if (shared || loads.size() == 1) {
    if (loads.size() == 1) {
      load_alone(file, spec, loads[0], options, progress);
    } else {
      load_together(file, spec, loads, options, progress);
    }
    return;
  }
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(loads.size());
  for (size_t d = 0; d < loads.size(); ++d) {
    const auto work = [&, d] {
      try {
        load_alone(file, spec, loads[d], options, progress);
      } catch (...) {
        errors[d] = std::current_exception();
      }
    };
    try {
      threads.push_back(start_thread(work));
    } catch (const Error&) {
      work();  // no thread is granted: this one does it
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

void load_weights(const gguf::File& file, const model::ModelSpec& spec,
                  const std::vector<DeviceLoad>& loads, const LoadOptions& options) {
  try {
    load_all(file, spec, loads, options);
  } catch (...) {
    file.check();  // what a device says of zeros in the place of weights is no help
    throw;
  }
  file.check();
}

}  // namespace strata::runtime
