// Random requests over random devices: a plan is refused with what would fit, or it runs as it says
// and gives the logits that one device gives.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

#include "base/error.h"
#include "engine/placement.h"
#include "runtime/run_model.h"
#include "runtime/small_models.h"
#include "watchdog.h"

namespace strata {
namespace {

constexpr int k_requests = 600;
constexpr uint32_t k_prompt = 40;
constexpr uint32_t k_steps = 2;

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(engine_() % n); }
  bool chance(double p) { return real(0, 1) < p; }
  double real(double low, double high) {
    return low + (high - low) * (static_cast<double>(engine_() >> 8) / double{1 << 24});
  }
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[below(static_cast<uint32_t>(from.size()))];
  }

 private:
  std::mt19937 engine_;
};

// What a user says on a command line about one run.
struct Words {
  PlacementOptions placement;
  std::optional<uint64_t> n_context;
  uint32_t n_sequences = 1, n_batch = 2048, n_ubatch = 512;
  std::string type_k = "f16", type_v = "f16";

  plan::Request request() const {
    plan::Request out = request_of(placement);
    out.n_context = n_context;
    out.n_sequences = n_sequences;
    out.n_batch = n_batch;
    out.n_ubatch = n_ubatch;
    out.type_k = cache_type(type_k, "-ctk");
    out.type_v = cache_type(type_v, "-ctv");
    return out;
  }

  // Adds flags as they are pasted behind those that are there: the last one counts.
  // "d0=3MiB,d2=1MiB" of the last --memory.
  std::string memory;
  void set_budgets(std::vector<device::Description>& devices) const {
    std::istringstream in(memory);
    for (std::string entry; std::getline(in, entry, ',');) {
      for (device::Description& d : devices) {
        if (!entry.starts_with(d.info.name + "=")) continue;
        d.info.budget_bytes = parse_size(entry.substr(d.info.name.size() + 1), "--memory");
      }
    }
  }

  void add(const std::string& flags) {
    if (flags == "without -ts") {
      placement.tensor_split.clear();
      return;
    }
    std::istringstream in(flags);
    const auto next = [&] {
      std::string word;
      in >> word;
      return word;
    };
    const auto number = [&] { return static_cast<uint32_t>(std::stoul(next())); };
    std::vector<std::string> rules;
    for (std::string flag; in >> flag;) {
      if (flag == "-dev") {
        next();
      } else if (flag == "--memory") {
        memory = next();
      } else if (flag == "-sm") {
        placement.split = next();
      } else if (flag == "-mg") {
        placement.main_device = number();
      } else if (flag == "-tp") {
        placement.tensor_parallel = number();
      } else if (flag == "-ts") {
        placement.tensor_split = next();
      } else if (flag == "-ngl") {
        const std::string n = next();
        placement.gpu_layers.reset();
        if (n != "auto") placement.gpu_layers = static_cast<uint32_t>(std::stoul(n));
      } else if (flag == "-ncmoe") {
        placement.n_cpu_moe = number();
      } else if (flag == "-cmoe") {
        placement.cpu_moe = true;
      } else if (flag == "-nkvo") {
        placement.kv_offload = false;
      } else if (flag == "-ot") {
        const std::string quoted = next();
        rules.push_back(quoted.front() == '\'' ? quoted.substr(1, quoted.size() - 2) : quoted);
      } else if (flag == "--pipeline-copies") {
        placement.pipeline_copies = number();
      } else if (flag == "-c") {
        n_context = number();
      } else if (flag == "-b") {
        n_batch = number();
      } else if (flag == "-ub") {
        n_ubatch = number();
      } else if (flag == "-np") {
        n_sequences = number();
      } else if (flag == "-ctk") {
        type_k = next();
      } else if (flag == "-ctv") {
        type_v = next();
      } else {
        ADD_FAILURE() << "what is '" << flag << "' in '" << flags << "'?";
      }
    }
    if (!rules.empty()) placement.override_tensor = rules;
  }
};

std::string text_of(const Words& words) {
  const PlacementOptions& p = words.placement;
  std::string out = "-sm " + p.split;
  if (p.tensor_parallel) out += " -tp " + std::to_string(*p.tensor_parallel);
  if (!p.tensor_split.empty()) out += " -ts " + p.tensor_split;
  if (p.main_device) out += " -mg " + std::to_string(*p.main_device);
  if (p.pipeline_copies) out += " --pipeline-copies " + std::to_string(*p.pipeline_copies);
  for (const std::string& rule : p.override_tensor) out += " -ot '" + rule + "'";
  if (p.gpu_layers) out += " -ngl " + std::to_string(*p.gpu_layers);
  if (p.cpu_moe) out += " -cmoe";
  if (p.n_cpu_moe) out += " -ncmoe " + std::to_string(*p.n_cpu_moe);
  if (!p.kv_offload) out += " -nkvo";
  out += words.n_context ? " -c " + std::to_string(*words.n_context) : " -c auto";
  out += " -np " + std::to_string(words.n_sequences) + " -b " + std::to_string(words.n_batch) +
         " -ub " + std::to_string(words.n_ubatch);
  return out + " -ctk " + words.type_k + " -ctv " + words.type_v;
}

Words random_words(Random& random, uint32_t n_devices, bool experts) {
  Words words;
  PlacementOptions& p = words.placement;
  p.split = random.pick<std::string>({"layer", "layer", "layer", "tensor", "tensor", "none"});
  if (p.split == "tensor" && random.chance(0.4)) p.tensor_parallel = 1 + random.below(n_devices);
  if (random.chance(0.35)) {
    for (uint32_t d = 0; d < n_devices; ++d) {
      // Also uneven ones, and devices without any.
      const double share = random.chance(0.15) ? 0 : random.real(0.1, 10);
      p.tensor_split += (d > 0 ? "," : "") + std::to_string(share);
    }
  }
  if (p.split == "none" && random.chance(0.5)) p.main_device = random.below(n_devices);
  if (random.chance(0.4)) p.pipeline_copies = 1 + random.below(5);
  const std::vector<std::string> patterns{"ffn_.*",
                                          "attn_.*",
                                          "ffn_(up|gate)",
                                          "token_embd",
                                          "output",
                                          "^output\\.",
                                          "norm",
                                          "blk\\.1\\.attn",
                                          "blk\\.0\\.",
                                          "ffn_.*_exps=",
                                          "nothing_like_this",
                                          "."};
  for (int rules = random.chance(0.3) ? 1 + static_cast<int>(random.below(3)) : 0; rules > 0;
       --rules) {
    std::string pattern = random.pick(patterns);
    if (pattern.back() == '=') pattern.pop_back();
    const uint32_t device = random.below(n_devices);
    p.override_tensor.push_back(pattern + "=" +
                                (random.chance(0.2) ? "CPU" : "d" + std::to_string(device)));
  }
  if (random.chance(0.15)) p.gpu_layers = random.below(6);
  if (experts && random.chance(0.25)) p.n_cpu_moe = random.below(5);
  if (experts && random.chance(0.1)) p.cpu_moe = true;
  if (random.chance(0.15)) p.kv_offload = false;
  if (random.chance(0.7)) words.n_context = 32 + random.below(1000);
  if (random.chance(0.3)) words.n_sequences = 1 + random.below(4);
  if (random.chance(0.3)) words.n_batch = 8 + random.below(100);
  words.n_ubatch = random.pick<uint32_t>({1, 8, 16, 17, 40, 64, 512});
  const std::vector<std::string> types{"f32", "f16", "f16", "bf16", "q8_0", "q4_0"};
  words.type_k = random.pick(types);
  words.type_v = random.chance(0.7) ? words.type_k : random.pick(types);
  return words;
}

// A model, and what one device makes of it.
struct Subject {
  explicit Subject(const test::SmallModel& small) : stored(small), weight_limit(small.limit) {
    std::mt19937 random(5);
    for (uint32_t i = 0; i < k_prompt + k_steps; ++i) {
      tokens.push_back(static_cast<int32_t>(random() % stored.spec.n_vocab));
    }
  }
  const std::vector<float>& reference(ElementType k, ElementType v) {
    std::vector<float>& logits = references[{k, v}];
    if (logits.empty()) {
      test::RunSetup setup;
      setup.type_k = k;
      setup.type_v = v;
      setup.n_context = 64;
      logits = test::all_logits(*test::load_file(*stored.file, setup), tokens);
    }
    return logits;
  }
  // How far shards may be off: the golden limit of the weights' type, or of the cache's.
  double limit(ElementType k, ElementType v) const {
    const auto of_cache = [](ElementType type) {
      using enum ElementType;
      return type == f16 ? 5e-7 : type == bf16 ? 1.5e-5 : type == q8_0 ? 1.5e-4 : 7.5e-3;
    };
    double limit = weight_limit;
    for (const ElementType type : {k, v}) {
      if (type != ElementType::f32) limit = std::max(limit, of_cache(type));
    }
    return limit;
  }

  test::StoredModel stored;
  double weight_limit;
  std::vector<int32_t> tokens;
  std::map<std::pair<ElementType, ElementType>, std::vector<float>> references;
};

struct Machine {
  std::vector<uint64_t> budgets;
  std::vector<device::Description> descriptions;
  runtime::Model::Devices devices;
};

device::Profile random_profile(Random& random) {
  device::Profile p;
  const double speed = std::pow(10.0, random.real(0, 2));
  p.other_linear = {speed * 1e9, speed * 1e10};
  p.attention = {speed * 1e9, speed * 5e9};
  p.seconds_per_op = random.real(1e-7, 1e-5);
  p.element_bytes_per_second = speed * 1e9;
  p.copy_bytes_per_second = random.real(1e9, 1e11);
  p.copy_seconds = random.real(1e-7, 1e-5);
  return p;
}

// Devices whose budgets go from far too small to plenty of `whole`, what one device would take.
Machine random_machine(Random& random, uint32_t n, uint64_t whole) {
  Machine out;
  const double regime = random.real(0, 1);
  const bool timed = random.chance(0.5);
  const bool cards = random.chance(0.4);
  for (uint32_t d = 0; d < n; ++d) {
    double factor = 0;
    if (regime < 0.35) {
      factor = random.real(1.5, 4);  // plenty
    } else if (regime < 0.8) {
      factor = random.real(0.4, 1.8) / n;  // it may just fit
    } else if (regime < 0.9) {
      factor = random.real(0.001, 0.3);  // far too small
    } else {
      factor = random.chance(0.5) ? random.real(0.001, 0.2) : random.real(1, 2);  // uneven
    }
    const uint64_t budget =
        std::max<uint64_t>(1, static_cast<uint64_t>(factor * static_cast<double>(whole)));
    out.budgets.push_back(budget);
    out.devices.push_back(device::open_device({"cpu", 1, budget}));
    device::Description description = device::describe(*out.devices.back());
    description.info.name = "d" + std::to_string(d);
    if (cards && (d + 1 < n || random.chance(0.2))) description.info.kind = "gpu";
    if (random.chance(0.3)) {
      description.info.free_bytes =
          static_cast<uint64_t>(random.real(0.3, 2) * static_cast<double>(budget));
    }
    if (timed) description.profile = random_profile(random);
    out.descriptions.push_back(std::move(description));
  }
  return out;
}

// One device with room for everything.
uint64_t bytes_on_one(const model::ModelSpec& spec, const Words& words) {
  plan::Request request;
  request.n_context = words.n_context.value_or(spec.n_context * words.n_sequences);
  request.n_batch = words.n_batch;
  request.n_ubatch = words.n_ubatch;
  request.type_k = request.type_v = ElementType::f32;
  const auto device = device::open_device({"cpu", 1, uint64_t{1} << 40});
  return plan::make(spec, {device::describe(*device)}, request).bytes().total();
}

uint64_t boundary_bytes(const model::ModelSpec& spec, const Words& words) {
  return uint64_t{std::min(words.n_batch, words.n_ubatch) + 15} * spec.n_embd * 4;
}

// Every half of every block once and in order, all devices known.
void check_structure(const model::ModelSpec& spec, const plan::Plan& plan) {
  uint32_t next = 0;
  bool embedded = false;
  for (const plan::Segment& segment : plan.segments) {
    EXPECT_EQ(segment.first_half, next);
    EXPECT_GE(segment.end_half, segment.first_half);
    EXPECT_NE(segment.embeds, embedded) << "the first segment embeds, no other";
    embedded = true;
    next = segment.end_half;
    EXPECT_FALSE(segment.members.empty());
    for (const plan::Member& member : segment.members) {
      EXPECT_LT(member.device, plan.devices.size());
    }
  }
  EXPECT_EQ(next, 2 * spec.blocks.size());
  uint64_t columns = 0;
  for (const plan::HeadPart& part : plan.head) {
    EXPECT_EQ(part.vocabulary.begin, columns);
    columns = part.vocabulary.end;
  }
  EXPECT_EQ(columns, spec.n_vocab);
  EXPECT_EQ(plan.n_context, uint64_t{plan.n_kv_blocks} * plan.kv_block_tokens);
}

void check_again(const model::ModelSpec& spec, const Machine& machine, const Words& words,
                 const plan::Plan& plan) {
  const std::string flags = flags_of(plan, words.request(), words.placement);
  SCOPED_TRACE("again: " + flags);
  Words again;
  again.add(flags);
  plan::Plan other;
  try {
    other = plan::make(spec, machine.descriptions, again.request());
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
    return;
  }
  EXPECT_EQ(other.n_context, plan.n_context);
  EXPECT_EQ(other.pipeline.copies, plan.pipeline.copies);
  ASSERT_EQ(other.segments.size(), plan.segments.size());
  for (size_t s = 0; s < plan.segments.size(); ++s) {
    EXPECT_EQ(other.segments[s].end_half, plan.segments[s].end_half) << "segment " << s;
    EXPECT_EQ(other.segments[s].members[0].device, plan.segments[s].members[0].device);
  }
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const plan::DeviceBytes &a = plan.devices[d].bytes, &b = other.devices[d].bytes;
    EXPECT_EQ(a.weights, b.weights) << plan.devices[d].name;
    EXPECT_EQ(a.kv, b.kv) << plan.devices[d].name;
    EXPECT_EQ(a.compute(), b.compute()) << plan.devices[d].name;
  }
}

void check_run(Subject& subject, Machine& machine, const Words& words, plan::Plan plan) {
  const plan::Request request = words.request();
  const bool exact = std::all_of(plan.segments.begin(), plan.segments.end(),
                                 [](const auto& segment) { return segment.members.size() == 1; });
  const uint64_t capacity = plan.n_context;
  const auto model = runtime::Model::load(*subject.stored.file, subject.stored.spec,
                                          std::move(plan), std::move(machine.devices));
  for (const runtime::MemoryAudit& row : model->audit()) {
    EXPECT_TRUE(row.equal()) << row.device << " " << row.purpose << ": planned " << row.planned
                             << ", allocated " << row.allocated << ", used " << row.used;
  }
  for (size_t d = 0; d < model->n_devices(); ++d) {
    EXPECT_LE(model->device(d).allocated_bytes(), machine.budgets[d]) << "device " << d;
  }
  const uint32_t n = static_cast<uint32_t>(std::min<uint64_t>(k_prompt, capacity - k_steps));
  std::vector<float> logits;
  const auto sink = [&](size_t, size_t, std::span<const float> row) {
    logits.insert(logits.end(), row.begin(), row.end());
  };
  const auto sequence = model->create_sequence();
  const std::span<const int32_t> tokens = subject.tokens;
  const runtime::Chunk prompt{sequence, tokens.first(n), runtime::Outputs::all};
  model->evaluate({&prompt, 1}, sink);
  for (uint32_t step = 0; step < k_steps; ++step) {
    const runtime::Chunk one{sequence, tokens.subspan(n + step, 1), runtime::Outputs::last};
    model->evaluate({&one, 1}, sink);
  }
  std::vector<float> reference = subject.reference(request.type_k, request.type_v);
  reference.resize(size_t{n + k_steps} * subject.stored.spec.n_vocab);
  ASSERT_EQ(logits.size(), reference.size());
  for (const float value : logits) ASSERT_TRUE(std::isfinite(value));
  if (exact) {
    EXPECT_EQ(std::memcmp(logits.data(), reference.data(), logits.size() * 4), 0)
        << "not the bits of one device; the error is " << test::normalised_error(logits, reference);
  } else {
    EXPECT_LE(test::normalised_error(logits, reference),
              subject.limit(request.type_k, request.type_v));
  }
}

TEST(Plans, are_refused_with_what_fits_or_run_as_they_say) {
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const test::SmallModel& small : test::small_models()) {
    subjects.push_back(std::make_unique<Subject>(small));
  }
  int accepted = 0, refused = 0, nonsense = 0, suggested = 0, hopeless = 0, together = 0,
      staged = 0;
  const int requests = test::repeated(k_requests);
  const char* only = std::getenv("STRATA_TEST_ONLY");  // one request, to look at it
  test::Watchdog watchdog(std::chrono::seconds(500));
  for (int i = 0; i < requests; ++i) {
    if (only != nullptr && std::atoi(only) != i) continue;
    Random random(1000 + static_cast<uint32_t>(i));
    Subject& subject = *subjects[random.below(static_cast<uint32_t>(subjects.size()))];
    const model::ModelSpec& spec = subject.stored.spec;
    const uint32_t n_devices = 1 + random.below(4);
    const Words words = random_words(random, n_devices, spec.blocks[0].experts.has_value());
    const uint64_t whole = bytes_on_one(spec, words);
    Machine machine = random_machine(random, n_devices, whole);
    std::string about = "request " + std::to_string(i) + ", " + subject.stored.name + ", budgets";
    for (size_t d = 0; d < machine.budgets.size(); ++d) {
      about += " " + std::to_string(machine.budgets[d]) +
               (machine.descriptions[d].info.kind == "cpu" ? "" : "g");
    }
    about += " of " + std::to_string(whole) + ": " + text_of(words);
    SCOPED_TRACE(about);
    watchdog.at(about);
    try {
      const plan::Plan plan = plan::make(spec, machine.descriptions, words.request());
      ++accepted;
      staged += plan.pipeline.stages > 1;
      for (const plan::Segment& segment : plan.segments) together += segment.members.size() > 1;
      check_structure(spec, plan);
      for (size_t d = 0; d < n_devices; ++d) {
        EXPECT_LE(plan.devices[d].bytes.total(), machine.budgets[d]) << "device " << d;
      }
      check_again(spec, machine, words, plan);
      check_run(subject, machine, words, plan);
    } catch (const plan::Refusal& refusal) {
      ++refused;
      EXPECT_EQ(refusal.shortfalls().size(), n_devices);
      // Where every device has room for everything, or one has and may take it, it fits.
      const uint64_t enough = whole + 8 * boundary_bytes(spec, words);
      const bool everywhere =
          *std::min_element(machine.budgets.begin(), machine.budgets.end()) >= enough;
      const bool free_choice =
          words.placement.split == "layer" && words.placement.tensor_split.empty() &&
          words.placement.override_tensor.empty() && !words.placement.gpu_layers &&
          !words.placement.n_cpu_moe && !words.placement.cpu_moe && words.placement.kv_offload &&
          std::all_of(machine.descriptions.begin(), machine.descriptions.end(),
                      [](const auto& d) { return d.info.kind == "cpu"; });
      const bool somewhere =
          *std::max_element(machine.budgets.begin(), machine.budgets.end()) >= enough;
      const bool asks_free_memory = !words.n_context;  // may be less than the budget
      EXPECT_FALSE(!asks_free_memory && everywhere) << refusal.what();
      EXPECT_FALSE(!asks_free_memory && free_choice && somewhere) << refusal.what();
      if (refusal.suggestions().empty()) ++hopeless;
      for (const std::string& flags : refusal.suggestions()) {
        ++suggested;
        Words changed = words;
        changed.add(flags);
        std::vector<device::Description> devices = machine.descriptions;
        changed.set_budgets(devices);
        try {
          plan::make(spec, devices, changed.request());
        } catch (const Error& error) {
          ADD_FAILURE() << "'" << flags << "' was said to fit: " << error.what();
        }
      }
    } catch (const Error& error) {
      ++nonsense;
      EXPECT_EQ(error.code(), ErrorCode::usage) << error.what();
      EXPECT_GT(std::string(error.what()).size(), 20u);
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  std::printf(
      "%d accepted (%d over stages, %d segments of groups), %d refused with %d suggestions "
      "(%d with none), %d without sense\n",
      accepted, staged, together, refused, suggested, hopeless, nonsense);
  if (only != nullptr) return;
  // The requests are of all kinds.
  EXPECT_GT(accepted, requests / 3);
  EXPECT_GT(refused, requests / 10);
  EXPECT_GT(nonsense, requests / 100);
  EXPECT_GT(suggested, requests / 20);
  EXPECT_GT(staged, requests / 10);
  EXPECT_GT(together, requests / 60);
}

}  // namespace
}  // namespace strata
