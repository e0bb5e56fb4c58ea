// Everything that asks for "all families", "the architecture called ..." or "the converter of ..."
// is answered here, from the list in families.h.
#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>
#include <optional>
#include <vector>

#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/families/families.h"

namespace moepack {
namespace {

#define SHARD_LIST_FAMILY(name) &name::kFamily,
constexpr const FamilyEntry* kEntries[] = {SHARD_FAMILIES(SHARD_LIST_FAMILY)};
#undef SHARD_LIST_FAMILY

// llama.cpp has graphs with experts for these, too (v0.5.0, src/llama-arch.cpp). No family here
// converts to them.
constexpr GgufArchitecture kOtherGraphs[] = {

    {.name = "grok"},           {.name = "kimi-linear"}, {.name = "llada-moe"},
    {.name = "nomic-bert-moe"}, {.name = "rnd1"},        {.name = "sarvam-moe"},
};

// A table that is built when it is first asked for, and never destroyed: anything that lives until
// the program ends may borrow its rules.
const Family& Built(size_t index) {
  struct Slot {
    std::mutex mutex;
    std::optional<Family> family;
  };
  static auto* const kSlots = new std::array<Slot, std::size(kEntries)>;
  Slot& slot = (*kSlots)[index];
  const std::lock_guard lock(slot.mutex);
  if (slot.family) return *slot.family;
  const FamilyEntry& entry = *kEntries[index];
  Family family = entry.table();
  family.name = entry.names.name;
  family.architectures.assign(entry.names.architectures.begin(), entry.names.architectures.end());
  family.model_types.assign(entry.names.model_types.begin(), entry.names.model_types.end());
  return slot.family.emplace(std::move(family));
}

const FamilyEntry* EntryOf(std::string_view family) {
  const auto found = std::find_if(std::begin(kEntries), std::end(kEntries),
                                  [&](const auto* entry) { return entry->names.name == family; });
  return found == std::end(kEntries) ? nullptr : *found;
}

}  // namespace

size_t FamilyList::size() const { return std::size(kEntries); }
const Family& FamilyList::operator[](size_t index) const { return Built(index); }
const FamilyNames& FamilyList::names(size_t index) const { return kEntries[index]->names; }

std::string_view ConfigDefaults(const Family& family, const ModelConfig& config) {
  const FamilyEntry* entry = EntryOf(family.name);
  if (entry == nullptr) return {};
  for (const ConfigDefault& row : entry->defaults) {
    if (config.model_type.starts_with(row.model_type) ||
        config.text_model_type.starts_with(row.model_type)) {
      return row.json;
    }
  }
  return {};
}

const GgufArchitecture* FindArchitecture(std::string_view name) {
  const auto is_it = [&](const GgufArchitecture& graph) { return graph.name == name; };
  for (const FamilyEntry* entry : kEntries) {
    const auto found = std::find_if(entry->graphs.begin(), entry->graphs.end(), is_it);
    if (found != entry->graphs.end()) return &*found;
  }
  const auto found = std::find_if(std::begin(kOtherGraphs), std::end(kOtherGraphs), is_it);
  return found == std::end(kOtherGraphs) ? nullptr : found;
}

std::vector<std::string_view> ArchitectureNames() {
  std::vector<std::string_view> names;
  for (const FamilyEntry* entry : kEntries) {
    for (const GgufArchitecture& graph : entry->graphs) names.push_back(graph.name);
  }
  for (const GgufArchitecture& graph : kOtherGraphs) names.push_back(graph.name);
  return names;
}

std::span<const GgufConverter> AllConverters() {
  static const auto* const kConverters = [] {
    auto* converters = new std::vector<GgufConverter>;
    for (const FamilyEntry* entry : kEntries) {
      if (entry->convert == nullptr) continue;
      converters->push_back({entry->names.name, entry->architecture, entry->convert});
    }
    return converters;
  }();
  return *kConverters;
}

std::span<const RuntimeFamily> AllRuntimeFamilies() {
  static const auto* const kFamilies = [] {
    auto* families = new std::vector<RuntimeFamily>;
    for (const FamilyEntry* entry : kEntries) {
      families->insert(families->end(), entry->runs.begin(), entry->runs.end());
    }
    return families;
  }();
  return *kFamilies;
}

}  // namespace moepack
