#include "strata/inputs.h"

#include "base/error.h"
#include "base/file.h"
#include "base/terminal.h"

namespace strata::app {

std::string input_text(const Options& options) {
  if (options.prompt) return *options.prompt;
  if (options.file) return read_file(*options.file);
  if (terminal::is_terminal(terminal::Stream::input)) {
    fail(ErrorCode::usage, "no text given; use -p TEXT, -f FILE or standard input");
  }
  return read_file("-");
}

SamplingOptions sampling_options(const Options& options) {
  SamplingOptions out;
  out.temperature = options.temp;
  out.top_k = options.top_k;
  out.top_p = options.top_p;
  out.min_p = options.min_p;
  out.typical_p = options.typical_p;
  out.repeat_penalty = options.repeat_penalty;
  out.presence_penalty = options.presence_penalty;
  out.frequency_penalty = options.frequency_penalty;
  out.penalty_window = options.repeat_last_n;
  out.logit_bias = options.logit_bias;
  out.ignore_eos = options.ignore_eos;
  out.seed = options.seed;
  out.n_probs = static_cast<uint32_t>(options.n_probs);
  return out;
}

}  // namespace strata::app
