#include "manifest/document/diff_steps.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "manifest/document/unknown_fields.h"

namespace moepack::manifest {

namespace {

std::string ValueText(const Json* found) {
  if (found == nullptr) return "";
  return found->is_string() ? found->get<std::string>()
                            : found->dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string LayersText(const ExpertIds& layers) {
  return Cat(layers.size() == 1 ? "layer " : "layers ", FormatIds(layers));
}

}  // namespace

void CompareFields(const char* what, const Json& a, const Json& b,
                   const std::set<std::string>& skip, Changes& changes) {
  const FieldIndex in_a(a), in_b(b);
  const auto compare = [&](const std::string& key, const Json* before, const Json* after) {
    if (skip.contains(key)) return;
    std::string old = ValueText(before), now = ValueText(after);
    if (old != now) changes.push_back({what, key, std::move(old), std::move(now)});
  };
  for (const auto& [key, value] : a.items()) compare(key, &value, in_b.Find(key));
  for (const auto& [key, value] : b.items()) {
    if (in_a.Find(key) == nullptr) compare(key, nullptr, &value);
  }
}

std::string FileText(uint64_t size, const std::string& sha256) {
  return Cat(size, " bytes, sha256 ", sha256.substr(0, 16));
}

void LayerChanges::Add(uint32_t layer, Change change) {
  const Key key = {change.name, change.before, change.after};
  const auto [place, added] = index_.emplace(key, list_.size());
  if (added) list_.push_back({std::move(change), {}});
  list_[place->second].second.push_back(layer);
}

void LayerChanges::MoveTo(Changes& changes) {
  for (auto& [change, layers] : list_) {
    change.name = Cat(LayersText(layers), ", ", change.name);
    changes.push_back(std::move(change));
  }
}

}  // namespace moepack::manifest
