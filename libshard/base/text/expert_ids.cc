#include "libshard/base/text/expert_ids.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using IdRange = std::pair<uint32_t, uint32_t>;  // first and last id, inclusive

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Error BadIds(const std::string& where, const std::string& expected, std::string_view found) {
  return {Code::kCorrupt, Cat(where, ": expected ", expected, ", found ", found)};
}

Result<uint32_t> ParseId(const std::string& where, std::string_view text, uint32_t limit) {
  const std::optional<uint64_t> id = ParseUint(text);
  if (!id) return BadIds(where, "numbers and ranges like 0-42,97", Quoted(text));
  if (*id > limit) return BadIds(where, Cat("numbers from 0 to ", limit), Quoted(text));
  return static_cast<uint32_t>(*id);
}

// "7" or "0-42".
Result<IdRange> ParseRange(const std::string& where, std::string_view text, uint32_t limit) {
  const size_t dash = text.find('-');
  SHARD_TRY(const uint32_t first, ParseId(where, text.substr(0, dash), limit));
  if (dash == std::string_view::npos) return IdRange{first, first};
  SHARD_TRY(const uint32_t last, ParseId(where, text.substr(dash + 1), limit));
  if (last < first) return BadIds(where, "a range that ascends", Quoted(text));
  return IdRange{first, last};
}

// The layer that a key other than "*" names. Only the spelling of std::to_string is accepted, so
// that two keys cannot mean one layer.
Result<uint32_t> ParseLayerKey(const std::string& where, const std::string& key,
                               const LayerCounts& layers) {
  const std::optional<uint64_t> layer = ParseUint(key);
  if (!layer || std::to_string(*layer) != key) {
    return Error{Code::kCorrupt,
                 Cat(where, ": expected a layer number or \"*\" as key, found ", Quoted(key))};
  }
  if (*layer > UINT32_MAX || !layers.contains(static_cast<uint32_t>(*layer))) {
    return Error{Code::kCorrupt,
                 Cat(where, ": layer ", key, ": expected a layer with routed experts, found none")};
  }
  return static_cast<uint32_t>(*layer);
}

Result<ExpertIds> IdsFromJson(const std::string& where, const Json& value, uint32_t expert_count) {
  if (!value.is_string()) {
    return Error{Code::kCorrupt,
                 Cat(where, ": expected text like \"0-42,97\", found ", DescribeJson(value))};
  }
  const auto& text = value.get_ref<const std::string&>();
  if (expert_count == 0 && !text.empty()) return BadIds(where, "none", Quoted(text));
  return ParseIds(where, text, expert_count == 0 ? 0 : expert_count - 1);
}

}  // namespace

std::string FormatIds(const ExpertIds& ids) {
  std::string text;
  for (size_t first = 0; first < ids.size();) {
    size_t last = first;
    while (last + 1 < ids.size() && ids[last + 1] == ids[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(ids[first]);
    if (last > first) text += '-' + std::to_string(ids[last]);
    first = last + 1;
  }
  return text;
}

std::string FormatChoice(const ExpertIds& ids) {
  return Cat(ids.size() == 1 ? "" : "one of ", FormatIds(ids));
}

Result<ExpertIds> ParseIds(const std::string& where, std::string_view text, uint32_t limit) {
  if (Trim(text).empty()) return ExpertIds{};
  std::vector<IdRange> ranges;
  for (const std::string& piece : Split(text, ',')) {
    SHARD_TRY(const IdRange range, ParseRange(where, Trim(piece), limit));
    ranges.push_back(range);
  }
  // Ranges are compared before they are expanded, so repeated ones cost no memory.
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first <= ranges[i - 1].second)
      return BadIds(where, "each number once", Cat(ranges[i].first, " twice"));
  }
  ExpertIds ids;
  for (const auto& [first, last] : ranges) {
    for (uint64_t id = first; id <= last; ++id) ids.push_back(static_cast<uint32_t>(id));
  }
  return ids;
}

ExpertIds Union(const ExpertIds& a, const ExpertIds& b) {
  ExpertIds out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

ExpertIds Difference(const ExpertIds& a, const ExpertIds& b) {
  ExpertIds out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

bool Contains(const ExpertIds& ids, uint32_t id) {
  return std::binary_search(ids.begin(), ids.end(), id);
}

const ExpertIds& IdsOf(const LayerExperts& experts_by_layer, uint32_t layer) {
  static const ExpertIds none;
  const auto found = experts_by_layer.find(layer);
  return found == experts_by_layer.end() ? none : found->second;
}

uint64_t CountIds(const LayerExperts& experts_by_layer) {
  uint64_t count = 0;
  for (const auto& [layer, ids] : experts_by_layer) count += ids.size();
  return count;
}

Json LayerExpertsToJson(const LayerExperts& experts_by_layer, const LayerCounts& layers) {
  Json out = Json::object();
  if (CountIds(experts_by_layer) == 0 || layers.empty()) return out;
  const ExpertIds& first = IdsOf(experts_by_layer, layers.begin()->first);
  const bool same = std::all_of(layers.begin(), layers.end(), [&](const auto& layer) {
    return IdsOf(experts_by_layer, layer.first) == first;
  });
  if (same) {
    out["*"] = FormatIds(first);
    return out;
  }
  for (const auto& [layer, ids] : experts_by_layer) {
    if (!ids.empty()) out[std::to_string(layer)] = FormatIds(ids);
  }
  return out;
}

Result<LayerExperts> LayerExpertsFromJson(const std::string& where, const Json& value,
                                          const LayerCounts& layers) {
  if (!value.is_object()) {
    return Error{Code::kCorrupt, Cat(where, ": expected an object of expert ids by layer, found ",
                                     DescribeJson(value))};
  }
  LayerExperts out;
  for (const auto& [key, text] : value.items()) {
    if (key == "*") continue;
    SHARD_TRY(const uint32_t layer, ParseLayerKey(where, key, layers));
    SHARD_TRY(out[layer], IdsFromJson(Cat(where, ": layer ", key), text, layers.at(layer)));
  }
  if (const auto all = value.find("*"); all != value.end()) {
    for (const auto& [layer, count] : layers) {
      if (out.contains(layer)) continue;
      SHARD_TRY(out[layer], IdsFromJson(Cat(where, ": layer ", layer), *all, count));
    }
  }
  // A layer named with "" was kept until now to hide it from "*".
  std::erase_if(out, [](const auto& layer) { return layer.second.empty(); });
  return out;
}

}  // namespace moepack
