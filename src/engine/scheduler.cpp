#include "engine/scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/field_error.h"
#include "base/log.h"
#include "base/start_thread.h"
#include "base/stopping_error.h"

namespace strata {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

uint64_t blocks_for(uint64_t tokens, uint32_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

}  // namespace

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options)
    : impl_(engine.impl()),
      model_(*impl_.model),
      options_(options),
      pace_({.stretch = options.stretch, .most = options.prompt_tokens}) {
  tell_state();
  thread_ = start_thread([this] { work(); });
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// Refuses tokens that can never be read.
void Scheduler::check_tokens(std::span<const TokenId> tokens) const {
  if (tokens.empty()) {
    fail_field("prompt", "the prompt is empty and the model has no BOS token to begin with");
  }
  const uint64_t capacity = impl_.info.n_context;
  if (tokens.size() > capacity) {
    throw ContextError(
        "prompt",
        fmt::format("the prompt has {} tokens, the context holds {}; use a shorter prompt or a "
                    "larger context",
                    tokens.size(), capacity),
        tokens.size(), capacity);
  }
  const size_t n_tokens = impl_.tokenizer->size();
  for (const TokenId id : tokens) {
    if (id < 0 || static_cast<size_t>(id) >= n_tokens) {
      fail_field("prompt", "token {} does not exist: the vocabulary has {} tokens", id, n_tokens);
    }
  }
}

RequestId Scheduler::submit(GenerationRequest wanted, Listener listener) {
  text::validate(wanted.sampling, impl_.tokenizer->size());
  check_tokens(wanted.prompt);
  if (wanted.n < 1) fail_field("n", "n is 0, but must be 1 or more");
  auto request = std::make_shared<Request>();
  // On the caller's thread: a large vocabulary takes a while, and others' tokens do not wait.
  if (wanted.grammar) {
    request->matcher = in_field("grammar", [&] {
      return std::make_unique<text::GrammarMatcher>(wanted.grammar, trie_with(wanted.shown));
    });
  }
  request->wanted = std::move(wanted);
  request->listener = std::move(listener);
  request->open = request->wanted.n;
  return enqueue(std::move(request));
}

RequestId Scheduler::embed(EmbeddingRequest wanted, EmbeddingListener listener) {
  if (wanted.texts.empty()) fail(ErrorCode::bad_request, "there is no text to embed");
  for (const std::vector<TokenId>& text : wanted.texts) check_tokens(text);
  auto request = std::make_shared<Request>();
  request->open = static_cast<uint32_t>(wanted.texts.size());
  request->wanted.priority = wanted.priority;
  request->wanted.cache_prompt = false;
  request->embedding = std::move(wanted);
  request->listener.failed = std::move(listener.failed);
  request->embedded = std::move(listener.done);
  return enqueue(std::move(request));
}

void Scheduler::check_room(size_t n) const {
  const size_t most = size_t{options_.max_waiting} + options_.n_parallel;
  if (n > most) {
    fail_field("prompt",
               "'prompt' is a list of {}, each a request of its own, but no more than {} may run "
               "and wait at "
               "a time (--parallel, --max-queue)",
               n, most);
  }
  const std::lock_guard lock(mutex_);
  check_room_locked(n);
}

void Scheduler::check_room_locked(size_t n) const {
  if (closed_ || stop_) throw StoppingError();
  // Those for whom there is a place wait for the end of a step only.
  const uint32_t places = options_.n_parallel - std::min(options_.n_parallel, state_.running);
  const size_t waiting = state_.waiting + arrivals_.size();
  if (waiting + n <= size_t{options_.max_waiting} + places) return;
  fail(ErrorCode::busy, "{} requests are waiting already; try again later", waiting);
}

RequestId Scheduler::enqueue(std::shared_ptr<Request> request) {
  request->arrived = now();
  RequestId id = 0;
  {
    const std::lock_guard lock(mutex_);
    check_room_locked(1);
    id = request->id = next_++;
    arrivals_.push_back(std::move(request));
    ++held_;
  }
  changed_.notify_all();
  return id;
}

void Scheduler::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    cancels_.push_back(id);
  }
  changed_.notify_all();
}

void Scheduler::cancel_all() {
  {
    const std::lock_guard lock(mutex_);
    cancel_all_ = true;
  }
  changed_.notify_all();
}

bool Scheduler::drain(double seconds) {
  std::unique_lock lock(mutex_);
  closed_ = true;
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [&] { return held_ == 0; });
}

SchedulerState Scheduler::state() const {
  const std::lock_guard lock(mutex_);
  SchedulerState out = state_;
  out.waiting += static_cast<uint32_t>(arrivals_.size());
  return out;
}

void Scheduler::tell_state() {
  const std::lock_guard lock(mutex_);
  state_.running = static_cast<uint32_t>(running_.size());
  state_.waiting = static_cast<uint32_t>(waiting_.size());
  state_.parallel = options_.n_parallel;
  state_.kv_blocks = model_.cache().n_blocks();
  state_.kv_free = model_.cache().free_blocks();
  state_.kv_empty = model_.cache().empty_blocks();
  state_.kv_kept = model_.cache().kept_blocks();
  state_.slots.clear();
  for (const SequencePtr& one : running_) {
    const auto prompt = one->result.prompt_tokens;
    state_.slots.push_back({one->request->id, one->choice, prompt,
                            std::min(static_cast<uint32_t>(one->started), prompt),
                            one->result.cached_tokens, one->result.tokens.size(),
                            one->request->wanted.max_tokens});
  }
  // Every step does this: the names stay, the numbers change.
  state_.devices.resize(model_.n_devices());
  for (size_t i = 0; i < state_.devices.size(); ++i) {
    const runtime::DeviceUse& use = model_.use(i);
    if (state_.devices[i].device.empty()) state_.devices[i].device = use.name;
    state_.devices[i].busy_seconds = use.busy_seconds;
    state_.devices[i].copy_seconds = use.copy_seconds;
    state_.devices[i].runs = use.runs;
  }
}

void Scheduler::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (waiting_.empty() && running_.empty() && flying_.empty()) {
        changed_.wait(lock, [&] { return stop_ || !arrivals_.empty() || !cancels_.empty(); });
      }
      if (stop_) break;
    }
    take_new();
    admit();
    // Every lane that is free gets whoever is ready; then the oldest micro-batch is waited for.
    while (model_.free_lanes() > 0 && start_step()) {
    }
    if (!flying_.empty()) finish_step();
    tell_state();
  }
  while (!flying_.empty()) finish_step();
  take_new();
  for (auto* list : {&running_, &waiting_}) {
    const std::list<SequencePtr> all = *list;
    for (const SequencePtr& sequence : all) end(sequence, StopReason::cancelled);
  }
}

std::shared_ptr<const text::TokenTrie> Scheduler::trie_with(const std::vector<TokenId>& shown) {
  const std::lock_guard lock(tries_mutex_);
  std::shared_ptr<const text::TokenTrie>& trie = tries_[shown];
  if (!trie) trie = text::TokenTrie::make(*impl_.tokenizer, shown);
  return trie;
}

Scheduler::SequencePtr Scheduler::make_sequence(const std::shared_ptr<Request>& request,
                                                uint32_t choice) const {
  const GenerationRequest& wanted = request->wanted;
  const text::Tokenizer& tokenizer = *impl_.tokenizer;
  auto sequence = std::make_shared<Sequence>();
  sequence->request = request;
  sequence->choice = choice;
  if (const auto& embedding = request->embedding) {
    sequence->pool.emplace(embedding->pooling, impl_.info.n_embd);
    const auto needed = sequence->pool->needed(embedding->texts[choice]);
    sequence->tokens.assign(needed.begin(), needed.end());
    return sequence;
  }
  sequence->tokens = wanted.prompt;
  SamplingOptions sampling = wanted.sampling;
  // Answers to one prompt differ, and are the same for the same seed.
  if (sampling.seed && choice > 0) *sampling.seed += choice;
  sequence->sampler = std::make_unique<text::Sampler>(sampling, tokenizer);
  if (wanted.grammar) {
    sequence->matcher = std::make_unique<text::GrammarMatcher>(*request->matcher);
  }
  sequence->stops = std::make_unique<text::StopStrings>(wanted.stop);
  sequence->detokenizer = std::make_unique<text::Detokenizer>(tokenizer, wanted.show_special);
  sequence->detokenizer->show(wanted.shown);
  for (const TokenId id : wanted.prompt) {
    sequence->sampler->accept(id, /*generated=*/false);
    sequence->detokenizer->push(id);
  }
  sequence->detokenizer->finish();
  sequence->result.seed = sequence->sampler->seed();
  sequence->result.prompt_tokens = static_cast<uint32_t>(wanted.prompt.size());
  return sequence;
}

void Scheduler::take_new() {
  std::vector<std::shared_ptr<Request>> arrivals;
  std::vector<RequestId> cancels;
  bool cancel_all = false;
  {
    const std::lock_guard lock(mutex_);
    arrivals.swap(arrivals_);
    cancels.swap(cancels_);
    cancel_all = std::exchange(cancel_all_, false);
    state_.waiting += static_cast<uint32_t>(arrivals.size());
  }
  for (const auto& request : arrivals) {
    wait(make_sequence(request, 0));
  }
  if (cancel_all) {
    for (auto* list : {&running_, &waiting_}) {
      const std::list<SequencePtr> all = *list;
      for (const SequencePtr& sequence : all) end(sequence, StopReason::cancelled);
    }
  }
  for (const RequestId id : cancels) {
    for (auto* list : {&running_, &waiting_}) {
      const std::list<SequencePtr> all = *list;
      for (const SequencePtr& sequence : all) {
        if (sequence->request->id == id) end(sequence, StopReason::cancelled);
      }
    }
  }
}

// Behind those that are as urgent.
void Scheduler::wait(const SequencePtr& sequence) {
  const auto place = std::find_if(waiting_.begin(), waiting_.end(), [&](const SequencePtr& one) {
    return one->request->wanted.priority < sequence->request->wanted.priority;
  });
  waiting_.insert(place, sequence);
}

void Scheduler::admit() {
  const cache::PagedKv& cache = model_.cache();
  const uint32_t block = cache.block_tokens();
  // Of the embeddings that run: tokens yet to be read, blocks yet to be taken.
  size_t embedding = 0;
  uint64_t unread = 0, promised = 0;
  for (const SequencePtr& sequence : running_) {
    if (!sequence->pool) continue;
    ++embedding;
    unread += sequence->tokens.size() - sequence->started;
    promised += blocks_for(sequence->tokens.size(), block) - blocks_for(sequence->started, block);
  }
  // As many embeddings run as fill the micro-batches; the places of the others are counted.
  const uint64_t enough = uint64_t{model_.plan().n_ubatch} * model_.n_lanes();
  bool places = true;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const SequencePtr sequence = *at;
    Request& request = *sequence->request;
    // The answers of a request that may run at once begin together, from one prompt.
    const uint32_t answers =
        sequence->choice == 0 && !sequence->generating && sequence->result.tokens.empty()
            ? std::min(request.wanted.n, options_.n_parallel)
            : 1;
    const size_t generating = running_.size() - embedding;
    if (!sequence->pool && generating > 0 && generating + answers > options_.n_parallel) {
      places = false;
    }
    if (sequence->pool ? unread >= enough : !places) {
      ++at;
      continue;
    }
    const std::span<const TokenId> all(sequence->tokens);
    // The last token is always evaluated: its logits are needed.
    const uint32_t cached = options_.prefix_cache && request.wanted.cache_prompt
                                ? cache.find(all.first(all.size() - 1), request.wanted.cache_scope)
                                : 0;
    // Room for the rest of the prompt and a first token of each answer.
    const uint64_t needed = sequence->pool
                                ? blocks_for(all.size(), block)
                                : blocks_for(all.size() + 1 - cached, block) + answers - 1;
    if (needed + promised > cache.free_blocks() && !running_.empty()) return;
    at = waiting_.erase(at);
    sequence->id = model_.create_sequence(request.wanted.cache_scope);
    if (cached > 0) {
      sequence->started = model_.adopt_prefix(*sequence->id, all.first(all.size() - 1));
    }
    if (request.begun == 0) request.begun = now();
    if (sequence->begun == 0) sequence->begun = now();
    if (sequence->pool) {
      ++embedding;
      unread += all.size();
      promised += needed;
      // The request's next text takes its turn with those of others.
      if (request.next_text < request.embedding->texts.size()) {
        wait(make_sequence(sequence->request, request.next_text++));
      }
    } else if (sequence->result.tokens.empty()) {
      sequence->result.cached_tokens = static_cast<uint32_t>(sequence->started);
      if (sequence->choice > 0) queue_next_choice(sequence->request);
      const std::lock_guard lock(mutex_);
      state_.cached_tokens += sequence->started;
    }
    running_.push_back(sequence);
  }
}

// Gives the sequence's place in the model back.
void Scheduler::let_go(Sequence& sequence) {
  if (!sequence.id) return;
  if (options_.prefix_cache && sequence.request->wanted.cache_prompt) {
    model_.keep_prefix(*sequence.id, sequence.tokens);
  }
  model_.remove_sequence(*sequence.id);
  sequence.id.reset();
}

void Scheduler::preempt(const SequencePtr& victim) {
  log::debug("request {}: gives its place up until there is room", victim->request->id);
  let_go(*victim);
  victim->started = 0;
  victim->generating = false;
  if (victim->pool) victim->pool->clear();
  running_.remove(victim);
  waiting_.push_front(victim);
  const std::lock_guard lock(mutex_);
  ++state_.preemptions;
}

// Whether so many blocks are free; if need be the youngest that is not in flight makes room.
bool Scheduler::make_room(uint32_t blocks, const Sequence* for_whom) {
  while (model_.cache().free_blocks() < blocks) {
    const auto victim = std::find_if(
        running_.rbegin(), running_.rend(),
        [&](const SequencePtr& one) { return one->in_flight == 0 && one.get() != for_whom; });
    if (victim == running_.rend()) return false;
    // Who came later waits; nobody is pushed out by somebody younger.
    const auto own = std::find_if(running_.begin(), running_.end(),
                                  [&](const SequencePtr& one) { return one.get() == for_whom; });
    const auto position = [&](const SequencePtr& one) {
      return std::distance(running_.begin(), std::find(running_.begin(), running_.end(), one));
    };
    if (own != running_.end() && position(*victim) < position(*own)) return false;
    preempt(SequencePtr(*victim));
  }
  return true;
}

bool Scheduler::start_step() {
  const uint32_t block = model_.cache().block_tokens();
  const uint32_t budget = model_.plan().n_ubatch;
  std::vector<SequencePtr> ready, reading;
  uint32_t generating = 0;
  for (const SequencePtr& sequence : running_) {
    if (sequence->over) continue;
    if (sequence->generating) {
      ++generating;
      if (sequence->in_flight == 0) ready.push_back(sequence);
    } else if (sequence->started < sequence->tokens.size()) {
      reading.push_back(sequence);
    }
  }
  Flying step;
  std::vector<runtime::Chunk> chunks;
  uint32_t used = 0;
  uint32_t taken = 0;  // blocks that the step will take
  // On several stages the sequences are spread over the micro-batches in flight.
  const uint32_t stages = model_.n_lanes() > 1 ? model_.plan().pipeline.stages : 1;
  const uint32_t most = std::min(budget, (generating + stages - 1) / std::max(stages, 1u));
  for (const SequencePtr& sequence : ready) {
    if (used >= most) break;
    if (!sequence->id) continue;  // has just given its place up
    // A block shared with another answer is copied before it is written to.
    const bool new_block =
        model_.length(*sequence->id) % block == 0 || sequence->request->wanted.n > 1;
    if (new_block && !make_room(taken + 1, sequence.get())) {
      if (running_.size() == 1 && flying_.empty() && step.sequences.empty()) {
        end(sequence, StopReason::context_full);
      }
      continue;
    }
    chunks.push_back({*sequence->id, std::span<const TokenId>(sequence->tokens).last(1),
                      runtime::Outputs::last});
    step.sequences.push_back(sequence);
    step.ends.push_back(sequence->tokens.size());
    taken += new_block ? 1 : 0;
    ++used;
  }
  // A step in which others generate reads only so much: their next token does not wait long.
  uint32_t left = reading.empty() ? 0 : pace_.prompt_tokens(generating, budget - used);
  step.generating = used;
  for (const SequencePtr& sequence : reading) {
    if (left == 0) break;
    if (!sequence->id) continue;
    const size_t n = std::min<size_t>(left, sequence->tokens.size() - sequence->started);
    const uint64_t length = model_.length(*sequence->id);
    const uint64_t fresh = blocks_for(length + n, block) - blocks_for(length, block);
    if (!make_room(taken + static_cast<uint32_t>(fresh), sequence.get())) {
      if (running_.size() == 1 && flying_.empty() && step.sequences.empty()) {
        end(sequence, StopReason::context_full);
      }
      continue;
    }
    const bool last = sequence->started + n == sequence->tokens.size();
    const std::optional<Pool>& pool = sequence->pool;
    chunks.push_back({*sequence->id,
                      std::span<const TokenId>(sequence->tokens).subspan(sequence->started, n),
                      pool   ? pool->outputs(last)
                      : last ? runtime::Outputs::last
                             : runtime::Outputs::none,
                      pool ? runtime::Gives::hidden : runtime::Gives::logits});
    taken += static_cast<uint32_t>(fresh);
    sequence->started += n;
    step.sequences.push_back(sequence);
    step.ends.push_back(sequence->started);
    left -= static_cast<uint32_t>(n);
    step.prompt += static_cast<uint32_t>(n);
  }
  // Who gave its place up while the step was put together is not in it.
  for (size_t i = step.sequences.size(); i-- > 0;) {
    if (step.sequences[i]->id) continue;
    step.sequences.erase(step.sequences.begin() + static_cast<ptrdiff_t>(i));
    step.ends.erase(step.ends.begin() + static_cast<ptrdiff_t>(i));
    chunks.erase(chunks.begin() + static_cast<ptrdiff_t>(i));
  }
  if (chunks.empty()) return false;
  step.begun = now();
  try {
    step.job = model_.start(
        chunks, {generating > 0 ? impl_.options.threads : impl_.options.threads_batch, nullptr});
  } catch (const Error& error) {
    for (const SequencePtr& sequence : step.sequences) fail_request(sequence->request, error);
    return false;
  }
  for (const SequencePtr& sequence : step.sequences) {
    if (sequence->generating) sequence->started = sequence->tokens.size();
    ++sequence->in_flight;
  }
  flying_.push_back(std::move(step));
  const std::lock_guard lock(mutex_);
  ++state_.steps;
  return true;
}

void Scheduler::finish_step() {
  Flying step = std::move(flying_.front());
  flying_.pop_front();
  for (const SequencePtr& sequence : step.sequences) --sequence->in_flight;
  try {
    model_.finish(step.job, [&](size_t chunk, size_t, std::span<const float> row) {
      const SequencePtr& sequence = step.sequences[chunk];
      if (sequence->over) return;
      if (std::optional<Pool>& pool = sequence->pool) {
        pool->add(row);
      } else {
        accept(sequence, row.first(impl_.tokenizer->size()));
      }
    });
    pace_.took(now() - step.begun, step.generating, step.prompt);
  } catch (const Error& error) {
    for (const SequencePtr& sequence : step.sequences) fail_request(sequence->request, error);
  }
  for (size_t i = 0; i < step.sequences.size(); ++i) {
    Sequence& sequence = *step.sequences[i];
    if (sequence.over) {
      if (sequence.in_flight == 0) let_go(sequence);
      continue;
    }
    if (sequence.pool) {
      if (step.ends[i] == sequence.tokens.size()) finish_embedding(step.sequences[i]);
      continue;
    }
    const auto prompt = static_cast<uint32_t>(sequence.request->wanted.prompt.size());
    if (sequence.result.tokens.empty() && sequence.request->listener.progress) {
      sequence.request->listener.progress(std::min(static_cast<uint32_t>(step.ends[i]), prompt),
                                          prompt);
    }
  }
}

// Logits of the sequence's last token.
void Scheduler::accept(const SequencePtr& sequence, std::span<const float> logits) {
  Request& request = *sequence->request;
  const bool first = !sequence->generating;
  sequence->generating = true;
  if (first) {
    if (options_.prefix_cache && request.wanted.cache_prompt) {
      model_.keep_prefix(*sequence->id, sequence->tokens);
    }
    if (sequence->first_token_at == 0) {
      sequence->first_token_at = now();
      sequence->result.prompt_seconds = sequence->first_token_at - sequence->begun;
      const std::lock_guard lock(mutex_);
      state_.prompt_tokens += sequence->result.prompt_tokens - sequence->result.cached_tokens;
      state_.prompt_seconds += sequence->result.prompt_seconds;
    }
  }
  try {
    if (first && sequence->choice == 0 && sequence->result.tokens.empty()) {
      branch(sequence, logits);
    }
    if (request.wanted.max_tokens == 0) {
      end(sequence, StopReason::length);
      return;
    }
    generated(sequence, draw(*sequence, logits));
  } catch (const Error& error) {
    // A grammar may turn out to be too ambiguous to be followed.
    fail_request(sequence->request, error);
  }
}

Sample Scheduler::draw(Sequence& sequence, std::span<const float> logits) {
  if (!sequence.matcher) return sequence.sampler->sample(logits);
  mask_.resize(sequence.matcher->mask_words());
  in_field("grammar", [&] { sequence.matcher->mask(mask_); });
  if (std::all_of(mask_.begin(), mask_.end(), [](uint32_t word) { return word == 0; })) {
    fail_field("grammar", "no token of this model continues the grammar");
  }
  const Sample sample = sequence.sampler->sample(logits, mask_);
  if (!in_field("grammar", [&] { return sequence.matcher->accept(sample.id); })) {
    fail(ErrorCode::internal, "token {} was drawn against the grammar", sample.id);
  }
  return sample;
}

// The other answers begin where the first one does; those for which there is no place read the
// prompt again when there is, from the cache where it is kept.
void Scheduler::branch(const SequencePtr& first, std::span<const float> logits) {
  const GenerationRequest& wanted = first->request->wanted;
  // Answers without a token take no place.
  const uint32_t together =
      wanted.max_tokens == 0 ? wanted.n : std::min(wanted.n, options_.n_parallel);
  first->request->next_choice = together;
  for (uint32_t choice = 1; choice < together; ++choice) {
    const SequencePtr other = make_sequence(first->request, choice);
    other->id = model_.fork_sequence(*first->id);
    other->started = other->tokens.size();
    other->generating = true;
    other->first_token_at = first->first_token_at;
    other->result.prompt_seconds = first->result.prompt_seconds;
    other->result.cached_tokens = first->result.cached_tokens;
    running_.push_back(other);
    if (other->request->wanted.max_tokens == 0) {
      end(other, StopReason::length);
    } else {
      generated(other, draw(*other, logits));
    }
  }
  queue_next_choice(first->request);
}

void Scheduler::queue_next_choice(const std::shared_ptr<Request>& request) {
  if (request->next_choice < request->wanted.n) {
    wait(make_sequence(request, request->next_choice++));
  }
}

void Scheduler::generated(const SequencePtr& sequence, const Sample& sample) {
  const GenerationRequest& wanted = sequence->request->wanted;
  const Listener& listener = sequence->request->listener;
  const text::Tokenizer& tokenizer = *impl_.tokenizer;
  sequence->result.tokens.push_back(sample.id);
  {
    const std::lock_guard lock(mutex_);
    ++state_.generated_tokens;
  }
  const bool ends = tokenizer.is_end_of_generation(sample.id);
  std::string text;
  if (!ends || wanted.show_special) {
    text = sequence->stops->push(sequence->detokenizer->push(sample.id));
  }
  sequence->result.text += text;
  if (!ends) {
    sequence->tokens.push_back(sample.id);
    sequence->sampler->accept(sample.id, /*generated=*/true);
  }
  if (listener.token) listener.token(sequence->choice, text, sample);
  if (ends) {
    end(sequence, StopReason::end_of_generation);
  } else if (sequence->stops->stopped()) {
    end(sequence, StopReason::stop_string);
  } else if (wanted.max_tokens >= 0 &&
             sequence->result.tokens.size() >= static_cast<uint64_t>(wanted.max_tokens)) {
    end(sequence, StopReason::length);
  } else if (sequence->tokens.size() > impl_.info.n_context) {
    end(sequence, StopReason::context_full);
  }
}

void Scheduler::end(const SequencePtr& sequence, StopReason reason) {
  if (sequence->over) return;
  if (sequence->pool) {
    // A part of the text is no answer.
    const bool full = reason == StopReason::context_full;
    fail_request(sequence->request,
                 full ? Error(ErrorCode::does_not_fit, "the cache has no room for the text")
                      : Error(ErrorCode::cancelled, "cancelled"));
    return;
  }
  sequence->over = true;
  running_.remove(sequence);
  waiting_.remove(sequence);
  if (sequence->in_flight == 0) let_go(*sequence);
  GenerateResult& result = sequence->result;
  std::string rest;
  if (!sequence->stops->stopped() && reason != StopReason::cancelled) {
    rest = sequence->stops->push(sequence->detokenizer->finish());
    rest += sequence->stops->finish();
    result.text += rest;
  }
  result.reason = sequence->stops->stopped() ? StopReason::stop_string : reason;
  result.stop_string = sequence->stops->matched();
  if (sequence->first_token_at > 0) result.generate_seconds = now() - sequence->first_token_at;
  const std::shared_ptr<Request> request = sequence->request;
  // Answers that never began are told of too.
  const uint32_t n = request->wanted.n;
  const bool alone = sequence->choice == 0 && !sequence->generating && result.tokens.empty();
  if (request->listener.done) request->listener.done(sequence->choice, rest, result);
  uint32_t over = 1;
  if (alone || reason == StopReason::cancelled) {
    GenerateResult none;
    none.reason = result.reason;
    none.prompt_tokens = result.prompt_tokens;
    for (uint32_t choice = alone ? 1 : request->next_choice; choice < n; ++choice, ++over) {
      if (request->listener.done) request->listener.done(choice, "", none);
    }
    request->next_choice = n;
  }
  request->open -= std::min(over, request->open);
  const std::lock_guard lock(mutex_);
  state_.generate_seconds += result.generate_seconds;
  if (request->open == 0) {
    ++state_.finished;
    --held_;
    changed_.notify_all();
  }
}

void Scheduler::finish_embedding(const SequencePtr& sequence) {
  Request& request = *sequence->request;
  sequence->over = true;
  running_.remove(sequence);
  let_go(*sequence);
  if (request.embedded) request.embedded(sequence->choice, sequence->pool->take());
  --request.open;
  const std::lock_guard lock(mutex_);
  state_.prompt_tokens += sequence->tokens.size();
  if (request.open > 0) return;
  state_.prompt_seconds += now() - request.begun;
  ++state_.finished;
  --held_;
  changed_.notify_all();
}

void Scheduler::fail_request(const std::shared_ptr<Request>& request, const Error& error) {
  bool any = false;
  for (auto* list : {&running_, &waiting_}) {
    const std::list<SequencePtr> all = *list;
    for (const SequencePtr& sequence : all) {
      if (sequence->request != request || sequence->over) continue;
      any = true;
      sequence->over = true;
      list->remove(sequence);
      if (sequence->in_flight == 0) let_go(*sequence);
    }
  }
  if (!any || request->open == 0) return;
  request->open = 0;
  if (request->listener.failed) request->listener.failed(error);
  const std::lock_guard lock(mutex_);
  ++state_.failed;
  --held_;
  changed_.notify_all();
}

}  // namespace strata
