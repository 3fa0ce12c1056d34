#include "runtime/trace.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/json.h"

namespace strata::runtime {

std::string Trace::json() const {
  int64_t start = runs_.empty() ? 0 : runs_[0].begin;
  for (const TraceRun& run : runs_) start = std::min(start, run.begin);
  Json events = Json::array();
  std::set<std::pair<uint32_t, uint32_t>> rows;
  for (const TraceRun& run : runs_) rows.emplace(run.device, run.lane);
  std::set<uint32_t> named;
  for (const auto& [device, lane] : rows) {
    if (named.insert(device).second) {
      events.push(Json::object({{"ph", "M"},
                                {"name", "process_name"},
                                {"pid", device},
                                {"args", Json::object({{"name", devices_[device]}})}}));
    }
    events.push(Json::object({{"ph", "M"},
                              {"name", "thread_name"},
                              {"pid", device},
                              {"tid", lane},
                              {"args", Json::object({{"name", "lane " + std::to_string(lane)}})}}));
  }
  const auto microseconds = [](int64_t ns) { return static_cast<double>(ns) / 1000; };
  for (const TraceRun& run : runs_) {
    std::string name = run.what;
    if (name == "stage") {
      name = "layers " + std::to_string(run.first_layer) + "-" + std::to_string(run.last_layer);
    }
    events.push(Json::object({{"ph", "X"},
                              {"name", name},
                              {"cat", run.what},
                              {"pid", run.device},
                              {"tid", run.lane},
                              {"ts", microseconds(run.begin - start)},
                              {"dur", microseconds(run.end - run.begin)},
                              {"args", Json::object({{"tokens", run.tokens}})}}));
  }
  return Json::object({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}).dump();
}

void Trace::write(const std::string& path) const {
  OutputFile file(path);
  file.write(json());
  file.close();
}

}  // namespace strata::runtime
