// strata devices: what this machine can run models on, and how fast.
#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "device/description.h"
#include "device/profile_store.h"
#include "device/registry.h"
#include "strata/output.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

// What most downloads are made of; the table shows the first.
constexpr ElementType k_types[] = {ElementType::q4_k, ElementType::q8_0};

struct Listed {
  device::DeviceInfo info;
  device::Profile profile;  // not known: not measured
};

// Measures again what is known; a measurement that others disturbed replaces nothing.
device::Profile measured_again(device::Device& device) {
  const device::Profile profile = device::profile_of(device, k_types, true, "");
  if (profile.disturbed) {
    log::warning("{}: something else used the device meanwhile; the figures are not kept",
                 device.info().name);
  } else {
    device::store_profile(device.info(), profile, device::calibration_path());
  }
  return profile;
}

std::vector<Listed> list_all(const Options& options) {
  const bool measure = options.measure;
  std::vector<device::DeviceInfo> infos;
  if (options.given.contains("device")) {
    const std::vector<std::string> names = device::split_device_list(options.device);
    device::check_disjoint(names);
    for (const std::string& name : names) {
      if (device::is_described(name)) {
        fail(ErrorCode::usage, "-dev {}: a device that is only described cannot be measured",
             printable(name));
      }
      infos.push_back(device::open_device({name, 0, 0, false})->info());
    }
  } else {
    infos = device::list_devices();
  }
  std::vector<Listed> out;
  for (device::DeviceInfo& info : infos) {
    const auto device = device::open_device({info.name, 0, 0, false});
    // The line goes away with the object when nothing had to be measured.
    std::optional<Progress> progress;
    const bool kept =
        device::profile_of(*device, k_types, false).linear.size() >= std::size(k_types);
    const bool again = options.measure_again && kept;
    if (measure && (!kept || again) && terminal::is_terminal(terminal::Stream::error)) {
      progress.emplace("measuring " + info.name, 1, Progress::Unit::items);
      progress->update(0);
    }
    out.push_back({std::move(info), again ? measured_again(*device)
                                          : device::profile_of(*device, k_types, measure)});
  }
  return out;
}

const device::Rate* rate_of(const device::Profile& profile, ElementType type) {
  const auto found = profile.linear.find(type);
  return found == profile.linear.end() ? nullptr : &found->second;
}

Json to_json(const device::Profile& profile) {
  if (!profile.known()) return nullptr;
  Json matrices = Json::object();
  for (const ElementType type : k_types) {
    if (const device::Rate* rate = rate_of(profile, type)) {
      matrices.set(std::string(info(type).name),
                   Json::object({{"read_bytes_per_second", rate->bytes_per_second},
                                 {"operations_per_second", rate->operations_per_second}}));
    }
  }
  return Json::object(
      {{"matrices", matrices},
       {"attention",
        Json::object({{"read_bytes_per_second", profile.attention.bytes_per_second},
                      {"operations_per_second", profile.attention.operations_per_second}})},
       {"activation_bytes_per_second", profile.element_bytes_per_second},
       {"seconds_per_op", profile.seconds_per_op},
       {"copy_bytes_per_second", profile.copy_bytes_per_second},
       {"copy_seconds", profile.copy_seconds}});
}

}  // namespace

int devices_verb(const Options& options) {
  const std::vector<Listed> devices = list_all(options);
  if (options.output_format == "json") {
    Json list = Json::array();
    for (const Listed& device : devices) {
      const device::DeviceInfo& info = device.info;
      list.push(Json::object({{"name", info.name},
                              {"kind", info.kind},
                              {"description", info.description},
                              {"isa", info.isa},
                              {"units", info.units},
                              {"memory_bytes", info.memory_bytes},
                              {"free_bytes", info.free_bytes},
                              {"measured", to_json(device.profile)}}));
    }
    print(list.dump(2) + "\n");
    flush_output();
    return 0;
  }
  const auto gib = [](uint64_t bytes) { return static_cast<double>(bytes) / 1073741824.0; };
  print(fmt::format("{:<10} {:>6} {:>12} {:>12} {:>12} {:>12} {:>12}  {:<10} {}\n", "device",
                    "cores", "memory", "free", "reads", "multiplies", "copies", "isa",
                    "description"));
  for (const Listed& device : devices) {
    const device::DeviceInfo& info = device.info;
    const device::Profile& profile = device.profile;
    std::string reads = "-", multiplies = "-", copies = "-";
    if (const device::Rate* rate = rate_of(profile, k_types[0])) {
      reads = fmt::format("{:.1f} GB/s", rate->bytes_per_second / 1e9);
      multiplies = fmt::format("{:.2f} TOPS", rate->operations_per_second / 1e12);
    }
    if (profile.known()) copies = fmt::format("{:.1f} GB/s", profile.copy_bytes_per_second / 1e9);
    print(fmt::format("{:<10} {:>6} {:>8.1f} GiB {:>8.1f} GiB {:>12} {:>12} {:>12}  {:<10} {}\n",
                      info.name, info.units, gib(info.memory_bytes), gib(info.free_bytes), reads,
                      multiplies, copies, info.isa, info.description));
  }
  flush_output();
  return 0;
}

}  // namespace strata::app
