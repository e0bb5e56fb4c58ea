#include "libshard/model/layer_list.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"

namespace moepack {
namespace {

constexpr size_t kMaxEntryLength = 64;

std::string EntryText(const Json& entry) {
  const std::string text = entry.is_string() ? entry.get<std::string>() : entry.dump();
  return std::string(WholeCharacters(text, kMaxEntryLength));
}

}  // namespace

void AddFault(ConfigFaults& faults, ConfigFault fault) {
  if (std::find(faults.begin(), faults.end(), fault) == faults.end()) {
    faults.push_back(std::move(fault));
  }
}

Status CheckFaults(const HfConfig& config, const ConfigFaults& faults) {
  if (faults.empty()) return Ok();
  const ConfigFault& first = faults.front();
  return Error{Code::kCorrupt, Cat(config.where(), ": ", first.field, ": expected ", first.expected,
                                   ", found ", first.found)};
}

std::optional<LayerList> ReadLayerList(const HfConfig& config, ConfigKeys keys,
                                       const BlockCounts& counts, ConfigFaults& faults,
                                       bool letters) {
  const std::optional<HfConfig::Field> field = config.Find(keys);
  if (!field) return std::nullopt;
  const Json& value = *field->value;
  LayerList list{field->path, {}};
  if (value.is_array()) {
    for (const Json& entry : value) {
      if (!entry.is_primitive() || entry.is_null()) {
        AddFault(faults, {Cat(field->path, "[", list.entries.size(), "]"), "a word or a number",
                          DescribeJson(entry)});
        return std::nullopt;
      }
      list.entries.push_back(EntryText(entry));
    }
  } else if (value.is_string() && letters) {
    for (const char letter : value.get_ref<const std::string&>()) {
      list.entries.emplace_back(1, letter);
    }
  } else {
    if (!value.is_number()) {
      AddFault(faults, {field->path, Cat("a list with one entry per layer (", counts.layers, ")"),
                        DescribeJson(value)});
    }
    return std::nullopt;
  }
  const size_t found = list.entries.size();
  if (found == counts.layers || found == counts.layers + counts.mtp) return list;
  AddFault(faults, {field->path, Cat("one entry per layer (", counts.layers, ")"), Cat(found)});
  return std::nullopt;
}

Result<std::optional<uint32_t>> ReadLayerStep(const HfConfig& config, ConfigKeys keys,
                                              ConfigFaults& faults) {
  SHARD_TRY(const std::optional<uint32_t> step, config.FindU32(keys));
  if (step != 0u) return step;
  AddFault(faults, {config.Find(keys)->path, "at least 1", "0"});
  return std::optional<uint32_t>();
}

}  // namespace moepack
