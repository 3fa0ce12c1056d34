// strata devices: what this machine can run models on.
#include <fmt/format.h>

#include "base/json.h"
#include "device/registry.h"
#include "strata/output.h"
#include "strata/verb.h"

namespace strata::app {

int devices_verb(const Options& options) {
  const std::vector<device::DeviceInfo> devices = device::list_devices();
  if (options.output_format == "json") {
    Json list = Json::array();
    for (const device::DeviceInfo& info : devices) {
      list.push(Json::object({{"name", info.name},
                              {"kind", info.kind},
                              {"description", info.description},
                              {"isa", info.isa},
                              {"units", info.units},
                              {"memory_bytes", info.memory_bytes},
                              {"free_bytes", info.free_bytes}}));
    }
    print(list.dump(2) + "\n");
    flush_output();
    return 0;
  }
  const auto gib = [](uint64_t bytes) { return static_cast<double>(bytes) / 1073741824.0; };
  print(fmt::format("{:<10} {:>6} {:>12} {:>12}  {:<8} {}\n", "device", "cores", "memory", "free",
                    "isa", "description"));
  for (const device::DeviceInfo& info : devices) {
    print(fmt::format("{:<10} {:>6} {:>8.1f} GiB {:>8.1f} GiB  {:<8} {}\n", info.name, info.units,
                      gib(info.memory_bytes), gib(info.free_bytes), info.isa, info.description));
  }
  flush_output();
  return 0;
}

}  // namespace strata::app
