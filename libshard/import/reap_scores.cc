// REAP's observations as JSON: {"<layer>": {"expert_frequency": [...], ...}, ...}, perhaps under
// "layers". docs/statistics-formats.md has the lines of Python that convert a .pt file.
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/import/importers.h"
#include "libshard/import/reap_columns.h"
#include "libshard/import/score_table.h"

namespace moepack {
namespace {

// One number counts as a list of one.
Result<std::vector<double>> ReapColumn(const std::string& where, const Json& value) {
  if (value.is_number()) return std::vector<double>{value.get<double>()};
  return JsonNumbers(where, value);
}

Result<ExpertScores> ReadReapJson(const ByteSource& file, const ImportOptions& options) {
  const std::string& where = file.name();
  SHARD_TRY(const Json document, ReadImportJson(file));
  const auto inner = document.find("layers");
  const Json& by_layer = inner != document.end() && inner->is_object() ? *inner : document;
  std::vector<ReapLayer> layers;
  for (const auto& [key, columns] : by_layer.items()) {
    ReapLayer layer;
    SHARD_TRY(layer.layer, LayerKey(where, key));
    const std::string place = Cat(where, ": layer ", layer.layer);
    if (!columns.is_object())
      return Error{Code::kCorrupt,
                   Cat(place, ": expected an object of lists, found ", DescribeJson(columns))};
    for (const auto& [name, value] : columns.items()) {
      if (!IsReapColumn(name) || value.is_null()) continue;
      SHARD_TRY(layer.columns[name], ReapColumn(Cat(place, ": ", name), value));
    }
    layers.push_back(std::move(layer));
  }
  return ScoresFromReap(where, std::move(layers), options);
}

bool LooksLikeReap(std::string_view head) {
  for (const char* key : {"\"expert_frequency\"", "\"weighted_ean_sum\"", "\"reap\"",
                          "\"weighted_expert_frequency_sum\""}) {
    if (JsonHeadHas(head, key)) return true;
  }
  return false;
}

}  // namespace

constinit const Importer kReapImporter = {
    "reap", "observations of REAP as JSON, a list of numbers per layer and measure", LooksLikeReap,
    ReadReapJson};

}  // namespace moepack
