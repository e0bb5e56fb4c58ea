#include "manifest/document/diff_steps.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"

namespace moepack::manifest {

namespace {

std::string ValueText(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  return found->is_string() ? found->get<std::string>()
                            : found->dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string LayersText(const ExpertIds& layers) {
  return Cat(layers.size() == 1 ? "layer " : "layers ", FormatIds(layers));
}

}  // namespace

void CompareFields(const char* what, const Json& a, const Json& b,
                   const std::set<std::string>& skip, Changes& changes) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : a.items()) keys.push_back(key);
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) keys.push_back(key);
  }
  for (const std::string& key : keys) {
    const std::string before = ValueText(a, key), after = ValueText(b, key);
    if (!skip.contains(key) && before != after) changes.push_back({what, key, before, after});
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
