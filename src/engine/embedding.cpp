#include "strata/embedding.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "engine/engine_impl.h"
#include "engine/pool.h"

namespace strata {
namespace {

constexpr std::pair<Pooling, std::string_view> k_names[] = {{Pooling::none, "none"},
                                                            {Pooling::mean, "mean"},
                                                            {Pooling::cls, "cls"},
                                                            {Pooling::last, "last"}};

// Of the vector divided by its largest magnitude, so that no power runs out of range.
double p_norm(std::span<const float> vector, double largest, int32_t p) {
  double sum = 0;
  for (const float value : vector) sum += std::pow(std::fabs(value) / largest, p);
  return largest * std::pow(sum, 1.0 / p);
}

}  // namespace

std::string_view name_of(Pooling pooling) {
  for (const auto& [value, name] : k_names) {
    if (value == pooling) return name;
  }
  return "";
}

std::optional<Pooling> parse_pooling(std::string_view text) {
  for (const auto& [value, name] : k_names) {
    if (name == text) return value;
  }
  return std::nullopt;
}

void normalise(std::span<float> vector, int32_t norm) {
  double largest = 0;
  for (const float value : vector) {
    if (!std::isfinite(value)) {
      fail(ErrorCode::internal, "the model made values of it that are not finite numbers");
    }
    largest = std::max(largest, std::fabs(double{value}));
  }
  if (norm < 0 || largest == 0) return;
  const double length = norm == 0 ? largest / 32760 : p_norm(vector, largest, norm);
  for (float& value : vector) value = static_cast<float>(value / length);
}

void Pool::add(std::span<const float> row) {
  ++n_;
  if (pooling_ == Pooling::mean) {
    sums_.resize(width_, 0);
    for (size_t i = 0; i < width_; ++i) sums_[i] += double{row[i]};
  } else {
    rows_.insert(rows_.end(), row.begin(), row.end());
  }
}

std::vector<float> Pool::take() {
  if (pooling_ == Pooling::mean) {
    for (const double sum : sums_) {
      rows_.push_back(static_cast<float>(sum / static_cast<double>(n_)));
    }
  }
  std::vector<float> out = std::move(rows_);
  clear();
  return out;
}

std::vector<float> Engine::embed(std::span<const TokenId> tokens, Pooling pooling) {
  if (tokens.empty()) {
    fail(ErrorCode::bad_request,
         "there is nothing to embed: the text is empty and the model has "
         "no BOS token to begin with");
  }
  if (tokens.size() > impl_->info.n_context) {
    fail(ErrorCode::does_not_fit,
         "the text has {} tokens, the context holds {}; use -c {} or more, or a shorter text",
         tokens.size(), impl_->info.n_context, tokens.size());
  }
  Pool pool(pooling, impl_->info.n_embd);
  const std::span<const TokenId> needed = pool.needed(tokens);
  const size_t first = pool.outputs(false) == runtime::Outputs::none ? needed.size() - 1 : 0;
  hidden_states(needed, first, [&](size_t, std::span<const float> row) { pool.add(row); });
  return pool.take();
}

}  // namespace strata
