#include "device/profile_store.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

namespace strata::device {
namespace {

constexpr uint64_t k_most_bytes = uint64_t{1} << 20;
constexpr uint32_t k_most_depth = 8;
constexpr size_t k_most_entries = 64;  // the oldest are forgotten first
// Faster than this nothing is: a damaged number.
constexpr double k_most_rate = 1e18;

Json key_of(const DeviceInfo& info) {
  return Json::object({{"processor", info.description},
                       {"device", info.name},
                       {"isa", info.isa},
                       {"units", info.units},
                       {"version", STRATA_VERSION}});
}

Json to_json(const Rate& rate) {
  return Json::object({{"bytes_per_second", rate.bytes_per_second},
                       {"operations_per_second", rate.operations_per_second}});
}

Json to_json(const Profile& profile) {
  Json linear = Json::object();
  for (const auto& [type, rate] : profile.linear) {
    linear.set(std::string(info(type).name), to_json(rate));
  }
  return Json::object({{"linear", linear},
                       {"other_linear", to_json(profile.other_linear)},
                       {"attention", to_json(profile.attention)},
                       {"seconds_per_op", profile.seconds_per_op},
                       {"element_bytes_per_second", profile.element_bytes_per_second},
                       {"copy_bytes_per_second", profile.copy_bytes_per_second},
                       {"copy_seconds", profile.copy_seconds}});
}

// What is there and makes sense; anything else makes the whole entry worthless.
struct Reader {
  bool good = true;

  double number(const Json& object, const char* name, bool zero_too = false) {
    const Json* found = object.find(name);
    const double value = found != nullptr && found->is_number() ? found->as_real() : -1;
    if (!std::isfinite(value) || value < 0 || value > k_most_rate || (value == 0 && !zero_too)) {
      good = false;
    }
    return value;
  }
  Rate rate(const Json* object) {
    if (object == nullptr) {
      good = false;
      return {};
    }
    return {number(*object, "bytes_per_second"), number(*object, "operations_per_second")};
  }
};

std::optional<Profile> profile_from(const Json& json) {
  Reader reader;
  Profile profile;
  const Json* linear = json.find("linear");
  if (linear == nullptr || !linear->is_object()) return std::nullopt;
  for (const auto& [name, value] : linear->as_object()) {
    const auto type = parse_type(name);
    if (!type) return std::nullopt;
    profile.linear[*type] = reader.rate(&value);
  }
  profile.other_linear = reader.rate(json.find("other_linear"));
  profile.attention = reader.rate(json.find("attention"));
  profile.seconds_per_op = reader.number(json, "seconds_per_op", true);
  profile.element_bytes_per_second = reader.number(json, "element_bytes_per_second");
  profile.copy_bytes_per_second = reader.number(json, "copy_bytes_per_second");
  profile.copy_seconds = reader.number(json, "copy_seconds", true);
  profile.measured = true;
  if (!reader.good) return std::nullopt;
  return profile;
}

// The entries of the file, as far as it can be read.
Json::Array entries_of(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::is_regular_file(path, ignored)) return {};
  try {
    Json json = Json::parse(read_regular_file(path, k_most_bytes), k_most_depth);
    const Json* devices = json.find("devices");
    if (devices != nullptr && devices->is_array()) return devices->as_array();
  } catch (const Error& error) {
    log::debug("{}: {}; it is made anew", path, error.what());
  }
  return {};
}

bool is_for(const Json& entry, const Json& key) {
  const Json* found = entry.find("key");
  return found != nullptr && *found == key;
}

}  // namespace

std::string calibration_path() {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string folder;
  if (xdg != nullptr && *xdg == '/') {
    folder = xdg;
  } else if (home != nullptr && *home == '/') {
    folder = std::string(home) + "/.cache";
  } else {
    return "";
  }
  return folder + "/strata/calibration.json";
}

std::optional<Profile> load_profile(const DeviceInfo& info, const std::string& path) {
  const Json key = key_of(info);
  for (const Json& entry : entries_of(path)) {
    const Json* profile = entry.find("profile");
    if (is_for(entry, key) && profile != nullptr) return profile_from(*profile);
  }
  return std::nullopt;
}

bool store_profile(const DeviceInfo& info, const Profile& profile, const std::string& path) {
  if (path.empty()) return false;
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return false;
  const Json key = key_of(info);
  Json::Array entries = entries_of(path);
  std::erase_if(entries, [&](const Json& entry) { return is_for(entry, key); });
  if (entries.size() >= k_most_entries) {
    entries.erase(entries.begin(), entries.end() - static_cast<ptrdiff_t>(k_most_entries - 1));
  }
  entries.push_back(Json::object({{"key", key}, {"profile", to_json(profile)}}));
  const std::string text = Json::object({{"devices", std::move(entries)}}).dump(2) + "\n";
  try {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    OutputFile file(path);
    file.write(text);
    file.close();
    return true;
  } catch (const Error& error) {
    log::debug("what was measured is not kept: {}", error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    log::debug("what was measured is not kept: {}", error.what());
  }
  return false;
}

Profile profile_of(Device& device, std::span<const ElementType> types, bool may_measure,
                   const std::string& path) {
  Profile kept = load_profile(device.info(), path).value_or(Profile{});
  std::vector<ElementType> missing;
  for (const ElementType type : types) {
    if (kept.linear.count(type) == 0) missing.push_back(type);
  }
  if ((kept.known() && missing.empty()) || !may_measure) return kept;
  Profile fresh;
  try {
    fresh = calibrate(device, missing);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::does_not_fit) throw;
    log::warning("the speed of device '{}' was not measured: {}", device.info().name, error.what());
    return kept;
  }
  // What was measured before of other types stays.
  if (kept.known()) {
    fresh.linear.merge(kept.linear);
    Rate& other = fresh.other_linear;
    other.bytes_per_second = std::min(other.bytes_per_second, kept.other_linear.bytes_per_second);
    other.operations_per_second =
        std::min(other.operations_per_second, kept.other_linear.operations_per_second);
  }
  if (!fresh.disturbed) store_profile(device.info(), fresh, path);
  return fresh;
}

Profile profile_of(Device& device, std::span<const ElementType> types, bool may_measure) {
  return profile_of(device, types, may_measure, calibration_path());
}

}  // namespace strata::device
