#include "text/jinja/filters.h"

#include <algorithm>
#include <vector>

namespace strata::text::jinja {
namespace {

// All filters of all files, sorted by name.
const std::vector<const FilterDef*>& all_filters() {
  static const std::vector<const FilterDef*> k_all = [] {
    std::vector<const FilterDef*> out;
    for (const FilterDef* table : {k_text_filters, k_wrap_filters, k_number_filters,
                                   k_sequence_filters, k_select_filters, k_json_filters}) {
      for (; table->name != nullptr; ++table) out.push_back(table);
    }
    std::sort(out.begin(), out.end(), [](const FilterDef* a, const FilterDef* b) {
      return std::string_view(a->name) < b->name;
    });
    return out;
  }();
  return k_all;
}

}  // namespace

const FilterDef* find_filter(std::string_view name) {
  const auto& all = all_filters();
  const auto found = std::lower_bound(
      all.begin(), all.end(), name,
      [](const FilterDef* def, std::string_view v) { return std::string_view(def->name) < v; });
  return found != all.end() && name == (*found)->name ? *found : nullptr;
}

}  // namespace strata::text::jinja
