// Micro-batches on their way through the segments: the lanes of a Model.
#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
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

// A run of free rows, leaving at least `keep` of all; -1 when there is none.
int64_t Model::take_logits_rows(uint64_t n, uint64_t keep) {
  const auto taken =
      static_cast<uint64_t>(std::count(logits_rows_.begin(), logits_rows_.end(), true));
  if (taken + n + keep > logits_rows_.size()) return -1;
  uint64_t length = 0;
  for (size_t i = 0; i < logits_rows_.size(); ++i) {
    length = logits_rows_[i] ? 0 : length + 1;
    if (length < n) continue;
    const size_t begin = i + 1 - n;
    std::fill_n(logits_rows_.begin() + static_cast<ptrdiff_t>(begin), n, true);
    return static_cast<int64_t>(begin);
  }
  return -1;
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
                     {layer.arena, layer.offset + copy.from * bytes, bytes});
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
      queue.copy(slot(copy.to, job.lane), slot(copy.from, job.lane));
      done.push_back(queue.record());
    }
    last_events_[s] = done;
    before = std::move(done);
  }
  job.hidden = std::move(before);
}

// Logits of the batch's output rows, from row `row` of the logits buffers on.
void Model::run_head(Job& job, std::shared_ptr<const device::Batch> batch, uint32_t row) {
  for (size_t p = 0; p < head_.size(); ++p) {
    Unit& unit = head_[p];
    device::Queue& queue = *lanes_[job.lane].queues[unit.device];
    for (const auto& event : job.hidden) {
      if (!event->done()) queue.wait(event);
    }
    const uint64_t row_bytes = plan_.head[p].vocabulary.size() * 4;
    device::RunArgs run = run_args(job, unit.device);
    run.batch = batch;
    run.externals = {slot(unit.device, job.lane),
                     {places_[unit.device].logits.get(), row * row_bytes,
                      batch->output_rows.size() * row_bytes}};
    job.runs.push_back({unit.device, static_cast<uint32_t>(segments_.size()), run.times});
    queue.run(*unit.executable, std::move(run));
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
      if (job.rows[i].output) job.output_rows.push_back(i);
    }
    run_segments(job, copies);
    if (!job.output_rows.empty()) {
      // The last free row stays for those whose logits do not fit at once.
      const uint64_t keep = lanes_.size() > 1 ? 1 : 0;
      job.logits_row = take_logits_rows(job.output_rows.size(), keep);
      if (job.logits_row >= 0) {
        auto chosen = std::make_shared<device::Batch>();
        chosen->output_rows = job.output_rows;
        run_head(job, std::move(chosen), static_cast<uint32_t>(job.logits_row));
      }
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
      return std::make_exception_ptr(Error(code, "device '" + name + "': " + what));
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

void Model::deliver(const Job& job, size_t first_output, size_t n, uint32_t row,
                    const LogitsSink& sink) {
  for (size_t i = 0; i < n; ++i) {
    const Row& of = job.rows[job.output_rows[first_output + i]];
    const auto part_row = [&](size_t p) {
      const Place& place = places_[head_[p].device];
      return reinterpret_cast<const float*>(place.logits->host()) +
             (row + i) * plan_.head[p].vocabulary.size();
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

// One line about a step: which device worked, and which one the others waited for.
void Model::log_step(const Job& job) const {
  int64_t begin = INT64_MAX, end = 0;
  std::map<uint32_t, int64_t> busy;
  for (const Run& run : job.runs) {
    if (run.times->end == 0) continue;
    begin = std::min(begin, run.times->begin);
    end = std::max(end, run.times->end);
    busy[run.device] += run.times->end - run.times->begin;
  }
  if (busy.empty()) return;
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  // Between two runs lies what a boundary takes to be handed on, and the wait for a device.
  std::string line = fmt::format("step of {} token{}, lane {}: {:.2f} ms;", job.rows.size(),
                                 job.rows.size() == 1 ? "" : "s", job.lane, ms(end - begin));
  for (const auto& [device, time] : busy) {
    line += fmt::format(" {} busy {:.2f}, waiting {:.2f};", plan_.devices[device].name, ms(time),
                        ms(end - begin - time));
  }
  line.pop_back();
  log::debug("{}", line);
}

void Model::note(const Job& job) {
  if (places_.size() > 1 && log::level() >= log::Level::debug) log_step(job);
  for (const Run& run : job.runs) {
    if (run.times->end == 0) continue;
    DeviceUse& use = places_[run.device].use;
    use.busy_seconds += static_cast<double>(run.times->end - run.times->begin) * 1e-9;
    ++use.runs;
    if (trace_ == nullptr) continue;
    TraceRun out;
    out.device = run.device;
    out.lane = job.lane;
    out.begin = run.times->begin;
    out.end = run.times->end;
    const bool head = run.segment == segments_.size();
    out.what = head ? "head" : "stage";
    out.tokens = static_cast<uint32_t>(head ? job.output_rows.size() : job.rows.size());
    if (!head) {
      const plan::Segment& segment = plan_.segments[run.segment];
      out.first_layer = segment.first_half / 2;
      out.last_layer = segment.end_half > 0 ? (segment.end_half - 1) / 2 : 0;
      if (segment.first_half == segment.end_half) out.what = "embedding";
    }
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
  if (job.logits_row >= 0) {
    std::fill_n(logits_rows_.begin() + job.logits_row, job.output_rows.size(), false);
  }
  lanes_[job.lane].busy = false;
  jobs_.erase(found);
}

void Model::finish(JobId id, const LogitsSink& sink) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) fail(ErrorCode::internal, "micro-batch {} does not exist", id);
  Job& job = found->second;
  Lane& lane = lanes_[job.lane];
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
    if (job.logits_row >= 0) {
      deliver(job, 0, job.output_rows.size(), static_cast<uint32_t>(job.logits_row), sink);
    } else {
      for (size_t at = 0; at < job.output_rows.size();) {
        // As many as are free in one run, at least the one that is kept for this.
        uint64_t n = std::min<uint64_t>(job.output_rows.size() - at, logits_rows_.size());
        int64_t row = -1;
        for (; n > 0 && row < 0; n -= row < 0 ? 1 : 0) row = take_logits_rows(n, 0);
        if (row < 0) fail(ErrorCode::internal, "no room for logits");
        const auto give_back = [&] { std::fill_n(logits_rows_.begin() + row, n, false); };
        try {
          auto chosen = std::make_shared<device::Batch>();
          chosen->output_rows.assign(job.output_rows.begin() + static_cast<ptrdiff_t>(at),
                                     job.output_rows.begin() + static_cast<ptrdiff_t>(at + n));
          run_head(job, std::move(chosen), static_cast<uint32_t>(row));
          wait_lane(lane);
          deliver(job, at, n, static_cast<uint32_t>(row), sink);
        } catch (...) {
          give_back();
          throw;
        }
        give_back();
        at += n;
      }
    }
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
      rows.push_back({c, t, chunk.tokens[t], static_cast<int32_t>(start + t), chunk.sequence,
                      chunk.outputs == Outputs::all || (chunk.outputs == Outputs::last && last)});
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

void Model::evaluate(std::span<const Chunk> chunks, const LogitsSink& sink,
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
