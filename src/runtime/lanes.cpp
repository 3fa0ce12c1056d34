// Micro-batches on their way through the segments: the lanes of a Model.
#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/held_error.h"
#include "base/log.h"
#include "plan/micro_batches.h"
#include "runtime/model.h"

namespace strata::runtime {

using cache::PagedKv;
using device::BufferRef;

void Model::check(std::span<const Chunk> chunks) const {
  for (const Chunk& chunk : chunks) {
    for (const int32_t id : chunk.tokens) {
      if (id < 0 || static_cast<uint32_t>(id) >= spec_.n_vocab) {
        fail(ErrorCode::bad_request, "token {} does not exist: the vocabulary has {} tokens", id,
             spec_.n_vocab);
      }
    }
  }
}

std::shared_ptr<const device::Batch> Model::batch_of(const std::vector<Row>& rows) {
  auto batch = std::make_shared<device::Batch>();
  std::unordered_map<SequenceId, uint32_t> tables;
  for (const Row& row : rows) {
    const auto [found, fresh] =
        tables.try_emplace(row.sequence, static_cast<uint32_t>(batch->block_tables.size()));
    if (fresh) batch->block_tables.push_back(cache_.blocks(row.sequence));
    batch->tokens.push_back(row.id);
    batch->positions.push_back(row.position);
    batch->sequences.push_back(found->second);
  }
  return batch;
}

device::RunArgs Model::run_args(const Job& job, uint32_t device) {
  const Place& place = places_[device];
  const auto all = [](const std::unique_ptr<device::Arena>& arena) {
    return arena ? BufferRef{arena.get(), 0, arena->size()} : BufferRef{};
  };
  device::RunArgs run;
  run.batch = job.batch;
  run.activations = all(place.activations);
  run.scratch = all(place.scratch);
  run.units = job.units;
  run.times = std::make_shared<device::RunTimes>();
  return run;
}

// Rows of the logits buffers that so many outputs take. Where a row of logits is wider than a
// hidden state, it holds several of these.
uint64_t Model::output_rows(Gives gives, uint64_t n) const {
  if (gives == Gives::logits) return n;
  return (n * spec_.n_embd * 4 + hidden_row_bytes_ - 1) / hidden_row_bytes_;
}

// A run of free rows, none of the last `keep`; -1 when there is none.
int64_t Model::take_output_rows(uint64_t n, uint64_t keep) {
  uint64_t length = 0;
  for (size_t i = 0; i + keep < output_rows_.size(); ++i) {
    length = output_rows_[i] ? 0 : length + 1;
    if (length < n) continue;
    const size_t begin = i + 1 - n;
    std::fill_n(output_rows_.begin() + static_cast<ptrdiff_t>(begin), n, true);
    return static_cast<int64_t>(begin);
  }
  return -1;
}

void Model::give_output_rows(int64_t at, uint64_t n) {
  std::fill_n(output_rows_.begin() + at, n, false);
}

std::shared_ptr<device::RunTimes> Model::timed_copy(Job& job, uint32_t device, size_t segment) {
  job.runs.push_back(
      {device, static_cast<uint32_t>(segment), std::make_shared<device::RunTimes>(), true});
  return job.runs.back().times;
}

void Model::run_segments(Job& job, std::span<const PagedKv::BlockCopy> copies) {
  Lane& lane = lanes_[job.lane];
  Events before;
  const auto wait = [](device::Queue& queue, const Events& events) {
    for (const auto& event : events) {
      if (!event->done()) queue.wait(event);
    }
  };
  for (size_t s = 0; s < segments_.size(); ++s) {
    const plan::Segment& segment = plan_.segments[s];
    std::vector<Unit>& units = segments_[s];
    device::GroupRun together;
    if (Group* group = segment_groups_[s]; group != nullptr) {
      together.group = group->group;
      together.number = ++group->runs;
    }
    Events done;
    const auto run_member = [&](size_t m) {
      Unit& unit = units[m];
      const plan::Member& member = segment.members[m];
      device::Queue& queue = *lane.queues[unit.device];
      wait(queue, before);
      wait(queue, last_events_[s]);
      for (const PagedKv::BlockCopy& copy : copies) {
        for (size_t i = 0; i < unit.kv.size(); ++i) {
          const uint64_t bytes = member.lowered.program.kv_layers[i].block_bytes();
          const BufferRef& layer = unit.kv[i];
          queue.copy({layer.arena, layer.offset + copy.to * bytes, bytes},
                     {layer.arena, layer.offset + copy.from * bytes, bytes},
                     timed_copy(job, unit.device, s));
        }
      }
      device::RunArgs run = run_args(job, unit.device);
      run.externals = {slot(member.output_device, job.lane)};
      if (!segment.embeds) run.externals.push_back(slot(unit.device, job.lane));
      run.group = together;
      run.group.member = static_cast<uint32_t>(m);
      job.runs.push_back({unit.device, static_cast<uint32_t>(s), run.times});
      queue.run(*unit.executable, std::move(run));
      done.push_back(queue.record());
    };
    for (size_t m = 0; m < units.size(); ++m) {
      try {
        run_member(m);
      } catch (...) {
        // Those that are under way do not wait for those that will not come.
        for (size_t rest = m; together.group && rest < units.size(); ++rest) {
          together.group->abandon(together.number);
        }
        throw;
      }
    }
    for (const plan::SlotCopy& copy : segment.copies) {
      device::Queue& queue = *lane.queues[copy.to];
      wait(queue, done);
      queue.copy(slot(copy.to, job.lane), slot(copy.from, job.lane), timed_copy(job, copy.to, s));
      done.push_back(queue.record());
    }
    last_events_[s] = done;
    before = std::move(done);
  }
  job.stream = std::move(before);
}

void Model::run_head(Job& job, Unit& unit, uint32_t segment, std::span<const uint32_t> rows,
                     BufferRef to) {
  device::Queue& queue = *lanes_[job.lane].queues[unit.device];
  for (const auto& event : job.stream) {
    if (!event->done()) queue.wait(event);
  }
  auto chosen = std::make_shared<device::Batch>();
  chosen->output_rows.assign(rows.begin(), rows.end());
  device::RunArgs run = run_args(job, unit.device);
  run.batch = std::move(chosen);
  run.externals = {slot(unit.device, job.lane), to};
  job.runs.push_back({unit.device, segment, run.times});
  queue.run(*unit.executable, std::move(run));
}

// Logits or hidden states of rows of the micro-batch, from row `at` of the logits buffers on.
void Model::run_outputs(Job& job, Gives gives, std::span<const uint32_t> rows, uint64_t at) {
  const auto past = static_cast<uint32_t>(segments_.size());
  if (gives == Gives::hidden) {
    run_head(job, hidden_, past + 1, rows,
             {places_[hidden_.device].logits.get(), at * hidden_row_bytes_,
              rows.size() * spec_.n_embd * 4});
    return;
  }
  for (size_t p = 0; p < head_.size(); ++p) {
    const uint64_t row_bytes = plan_.head[p].vocabulary.size() * 4;
    run_head(job, head_[p], past, rows,
             {places_[head_[p].device].logits.get(), at * row_bytes, rows.size() * row_bytes});
  }
}

Model::JobId Model::start_rows(std::vector<Row> rows, std::span<const PagedKv::BlockCopy> copies,
                               uint32_t units) {
  const auto lane =
      std::find_if(lanes_.begin(), lanes_.end(), [](const Lane& one) { return !one.busy; });
  if (lane == lanes_.end()) fail(ErrorCode::internal, "every lane has a micro-batch in flight");
  const JobId id = next_job_++;
  Job& job = jobs_[id];
  job.lane = static_cast<uint32_t>(lane - lanes_.begin());
  lane->busy = true;
  job.rows = std::move(rows);
  job.units = units;
  try {
    job.batch = batch_of(job.rows);
    for (uint32_t i = 0; i < job.rows.size(); ++i) {
      job.sequences.insert(job.rows[i].sequence);
      const Row& row = job.rows[i];
      if (row.outputs != Outputs::none) job.asked[static_cast<size_t>(row.gives)].rows.push_back(i);
    }
    run_segments(job, copies);
    for (const Gives gives : {Gives::logits, Gives::hidden}) {
      Asked& asked = job.asked[static_cast<size_t>(gives)];
      if (asked.rows.empty()) continue;
      if (gives == Gives::hidden && asked.rows.size() > plan_.hidden.max_outputs) continue;
      // The last rows stay for those whose outputs do not fit at once.
      const uint64_t keep = lanes_.size() > 1 ? output_rows(Gives::hidden, 1) : 0;
      asked.taken = output_rows(gives, asked.rows.size());
      asked.at = take_output_rows(asked.taken, keep);
      if (asked.at >= 0) run_outputs(job, gives, asked.rows, static_cast<uint64_t>(asked.at));
    }
  } catch (...) {
    give_up(id);
    throw;
  }
  return id;
}

void Model::wait_lane(Lane& lane) {
  std::exception_ptr error;
  for (size_t d = 0; d < lane.queues.size(); ++d) {
    if (!lane.queues[d]) continue;
    const std::string& name = plan_.devices[d].name;
    const auto named = [&](ErrorCode code, const std::string& what) {
      return held_error<Error>(code, "device '" + name + "': " + what);
    };
    try {
      lane.queues[d]->synchronize();
    } catch (const Error& caught) {
      const std::string what = caught.what();
      // A member that was let down by another says less than the one that failed.
      const bool follows = what.find("another device of the group failed") != std::string::npos;
      if (error && follows) continue;
      error = what.find("'" + name + "'") != std::string::npos ? std::current_exception()
                                                               : named(caught.code(), what);
    } catch (const std::exception& caught) {
      error = named(ErrorCode::internal, caught.what());
    } catch (...) {
      error = named(ErrorCode::internal, "an unknown failure");
    }
  }
  if (error) std::rethrow_exception(error);
}

// Waits until the micro-batch is done. Those in flight that read what it should have written to
// their sequence then fail with it.
void Model::wait_job(Job& job) {
  if (job.waited) return;
  job.waited = true;
  try {
    wait_lane(lanes_[job.lane]);
  } catch (...) {
    if (!job.error) job.error = std::current_exception();
  }
}

// Puts the sequences back to their lengths.
void Model::go_back(const std::map<SequenceId, uint32_t>& before,
                    std::span<const PagedKv::BlockCopy> copies) {
  for (const auto& [sequence, length] : before) {
    if (cache_.contains(sequence)) cache_.truncate(sequence, length);
  }
  cache_.undo(copies);
}

void Model::deliver(const Job& job, Gives gives, std::span<const uint32_t> rows, uint64_t at,
                    const RowSink& sink) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& of = job.rows[rows[i]];
    if (gives == Gives::hidden) {
      const auto* begin = reinterpret_cast<const float*>(places_[hidden_.device].logits->host() +
                                                         at * hidden_row_bytes_);
      sink(of.chunk, of.token, {begin + i * spec_.n_embd, spec_.n_embd});
      continue;
    }
    const auto part_row = [&](size_t p) {
      const Place& place = places_[head_[p].device];
      return reinterpret_cast<const float*>(place.logits->host()) +
             (at + i) * plan_.head[p].vocabulary.size();
    };
    if (head_.size() == 1) {
      sink(of.chunk, of.token, {part_row(0), spec_.n_vocab});
      continue;
    }
    for (size_t p = 0; p < head_.size(); ++p) {
      const model::Interval& part = plan_.head[p].vocabulary;
      std::copy_n(part_row(p), part.size(), host_row_.data() + part.begin);
    }
    sink(of.chunk, of.token, host_row_);
  }
}

// What a job that is done was asked for; what had no room so far is computed now.
void Model::hand_out(Job& job, Gives gives, const RowSink& sink) {
  Asked& asked = job.asked[static_cast<size_t>(gives)];
  if (asked.at >= 0) {
    deliver(job, gives, asked.rows, static_cast<uint64_t>(asked.at), sink);
    // Room for the job's others.
    give_output_rows(asked.at, asked.taken);
    asked.at = -1;
    return;
  }
  const uint64_t most = gives == Gives::hidden ? plan_.hidden.max_outputs : plan_.max_outputs;
  for (std::span<const uint32_t> rest = asked.rows; !rest.empty();) {
    // As many as are free in one run, at least the one that is kept for this.
    uint64_t n = std::min<uint64_t>(rest.size(), most);
    int64_t at = -1;
    for (; n > 0 && at < 0; n -= at < 0 ? 1 : 0) at = take_output_rows(output_rows(gives, n), 0);
    if (at < 0) fail(ErrorCode::internal, "no room for outputs");
    try {
      run_outputs(job, gives, rest.first(n), static_cast<uint64_t>(at));
      wait_lane(lanes_[job.lane]);
      deliver(job, gives, rest.first(n), static_cast<uint64_t>(at), sink);
    } catch (...) {
      give_output_rows(at, output_rows(gives, n));
      throw;
    }
    give_output_rows(at, output_rows(gives, n));
    rest = rest.subspan(n);
  }
}

// One line about a step: which device worked, and which one the others waited for.
void Model::log_step(const Job& job) const {
  int64_t begin = INT64_MAX, end = 0;
  struct Time {
    int64_t busy = 0, copying = 0;
  };
  std::map<uint32_t, Time> times;
  for (const Run& run : job.runs) {
    if (run.times->end == 0) continue;
    begin = std::min(begin, run.times->begin);
    end = std::max(end, run.times->end);
    Time& time = times[run.device];
    (run.copies ? time.copying : time.busy) += run.times->end - run.times->begin;
  }
  if (times.empty()) return;
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  // Between two runs lies what a boundary takes to be handed on, and the wait for a device.
  std::string line = fmt::format("step of {} token{}, lane {}: {:.2f} ms;", job.rows.size(),
                                 job.rows.size() == 1 ? "" : "s", job.lane, ms(end - begin));
  for (const auto& [device, time] : times) {
    line +=
        fmt::format(" {} busy {:.2f}, copying {:.2f}, waiting {:.2f};", plan_.devices[device].name,
                    ms(time.busy), ms(time.copying), ms(end - begin - time.busy - time.copying));
  }
  line.pop_back();
  log::debug("{}", line);
}

void Model::note(const Job& job) {
  if (places_.size() > 1 && log::level() >= log::Level::debug) log_step(job);
  for (const Run& run : job.runs) {
    if (run.times->end == 0) continue;
    DeviceUse& use = places_[run.device].use;
    const double seconds = static_cast<double>(run.times->end - run.times->begin) * 1e-9;
    (run.copies ? use.copy_seconds : use.busy_seconds) += seconds;
    use.runs += run.copies ? 0 : 1;
    if (trace_ == nullptr) continue;
    TraceRun out;
    out.device = run.device;
    out.lane = job.lane;
    out.begin = run.times->begin;
    out.end = run.times->end;
    out.what = "stage";
    out.tokens = static_cast<uint32_t>(job.rows.size());
    if (run.segment >= segments_.size()) {
      const bool hidden = run.segment > segments_.size();
      out.what = hidden ? "hidden states" : "head";
      out.tokens = static_cast<uint32_t>(job.asked[hidden ? 1 : 0].rows.size());
    } else {
      const plan::Segment& segment = plan_.segments[run.segment];
      out.first_layer = segment.first_half / 2;
      out.last_layer = segment.end_half > 0 ? (segment.end_half - 1) / 2 : 0;
      if (segment.first_half == segment.end_half) out.what = "embedding";
    }
    if (run.copies) out.what = "copy";
    trace_->add(out);
  }
}

// Ends a job that failed: whatever it still has under way is waited for, its sequences go back to
// where they were, and the jobs in flight that follow it in one of them fail too.
void Model::give_up(JobId id) {
  Job& job = jobs_.at(id);
  std::exception_ptr error = std::current_exception();
  try {
    wait_lane(lanes_[job.lane]);
  } catch (...) {
    // The first error is the one to tell.
  }
  for (auto later = jobs_.upper_bound(id); later != jobs_.end(); ++later) {
    for (const SequenceId sequence : job.sequences) {
      if (later->second.sequences.erase(sequence) == 0) continue;
      later->second.before.erase(sequence);  // further back than that already
      if (!later->second.error) later->second.error = error;
    }
  }
  go_back(job.before, job.copies);
  drop(id);
}

// Gives the job's lane and rows back, whatever became of it.
void Model::drop(JobId id) {
  const auto found = jobs_.find(id);
  Job& job = found->second;
  for (const Asked& asked : job.asked) {
    if (asked.at >= 0) give_output_rows(asked.at, asked.taken);
  }
  lanes_[job.lane].busy = false;
  jobs_.erase(found);
}

void Model::finish(JobId id, const RowSink& sink) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) fail(ErrorCode::internal, "micro-batch {} does not exist", id);
  Job& job = found->second;
  try {
    // What it read must be there, in whatever order they are finished.
    for (auto earlier = jobs_.begin(); earlier != found; ++earlier) {
      const auto& sequences = earlier->second.sequences;
      const bool shared = std::any_of(job.sequences.begin(), job.sequences.end(),
                                      [&](SequenceId one) { return sequences.contains(one); });
      if (!shared) continue;
      wait_job(earlier->second);
      if (!job.error) job.error = earlier->second.error;
    }
    wait_job(job);
    if (job.error) std::rethrow_exception(job.error);
    hand_out(job, Gives::logits, sink);
    hand_out(job, Gives::hidden, sink);
    note(job);
  } catch (...) {
    give_up(id);
    throw;
  }
  cache_.settle(job.copies);
  drop(id);
}

// Extends the chunks' sequences; what to go back to and which blocks to copy is noted on the way,
// so that it is known also when one of them finds no room.
std::vector<Model::Row> Model::make_room(std::span<const Chunk> chunks,
                                         std::map<SequenceId, uint32_t>& before,
                                         std::vector<PagedKv::BlockCopy>& copies) {
  std::vector<Row> rows;
  for (size_t c = 0; c < chunks.size(); ++c) {
    const Chunk& chunk = chunks[c];
    const uint32_t start = cache_.length(chunk.sequence);
    before.try_emplace(chunk.sequence, start);
    const auto more = cache_.extend(chunk.sequence, static_cast<uint32_t>(chunk.tokens.size()));
    copies.insert(copies.end(), more.begin(), more.end());
    for (size_t t = 0; t < chunk.tokens.size(); ++t) {
      const bool last = t + 1 == chunk.tokens.size();
      const bool gives = chunk.outputs == Outputs::all || (chunk.outputs == Outputs::last && last);
      rows.push_back({c, t, chunk.tokens[t], static_cast<int32_t>(start + t), chunk.sequence,
                      gives ? chunk.outputs : Outputs::none, chunk.gives});
    }
  }
  return rows;
}

Model::JobId Model::start(std::span<const Chunk> chunks, const EvaluateOptions& options) {
  check(chunks);
  if (free_lanes() == 0) fail(ErrorCode::internal, "every lane has a micro-batch in flight");
  std::vector<PagedKv::BlockCopy> copies;
  std::map<SequenceId, uint32_t> before;
  try {
    const std::vector<Row> rows = make_room(chunks, before, copies);
    if (rows.empty() || rows.size() > plan_.n_ubatch) {
      fail(ErrorCode::internal, "{} tokens are not a micro-batch of 1 to {}", rows.size(),
           plan_.n_ubatch);
    }
    const JobId id = start_rows(rows, copies, options.units);
    jobs_[id].before = std::move(before);
    jobs_[id].copies = std::move(copies);
    return id;
  } catch (...) {
    go_back(before, copies);
    throw;
  }
}

void Model::evaluate(std::span<const Chunk> chunks, const RowSink& sink,
                     const EvaluateOptions& options) {
  check(chunks);
  std::vector<PagedKv::BlockCopy> copies;
  std::map<SequenceId, uint32_t> before;
  std::deque<JobId> flying;
  try {
    // Room for everything first, so that a full cache changes nothing.
    const std::vector<Row> rows = make_room(chunks, before, copies);
    const uint32_t stages = lanes_.size() > 1 ? plan_.pipeline.stages : 1;
    size_t at = 0;
    for (const uint32_t n :
         plan::micro_batches(rows.size(), plan_.n_ubatch, stages, plan_.pipeline.least_tokens)) {
      while (free_lanes() == 0 && !flying.empty()) {
        const JobId first = flying.front();
        flying.pop_front();
        finish(first, sink);
      }
      if (options.stop && options.stop()) fail(ErrorCode::cancelled, "stopped");
      const auto begin = rows.begin() + static_cast<ptrdiff_t>(at);
      // The first of all makes the copies.
      const std::span<const PagedKv::BlockCopy> first_copies(copies.data(),
                                                             at == 0 ? copies.size() : 0);
      flying.push_back(start_rows(std::vector<Row>(begin, begin + n), first_copies, options.units));
      at += n;
    }
    while (!flying.empty()) {
      const JobId first = flying.front();
      flying.pop_front();
      finish(first, sink);
    }
    cache_.settle(copies);
  } catch (...) {
    for (const JobId id : flying) {
      try {
        finish(id, [](size_t, size_t, std::span<const float>) {});
      } catch (...) {
        // The first error is the one to tell.
      }
    }
    go_back(before, copies);
    throw;
  }
}

}  // namespace strata::runtime
