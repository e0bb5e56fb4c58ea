#include "tools/reports/planning/type_report.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/format/tensor.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

// "recipe Q4_K_M (down: another type)", "--trunk-type, then fallback (rows of 96 values, ...)".
std::string RuleText(const TensorType& type) {
  std::string text = type.choice.rule;
  if (!type.choice.detail.empty()) text += Cat(" (", type.choice.detail, ")");
  if (!type.fallback.empty()) {
    text += Cat(", then fallback from ", type.choice.wanted->name, " (", type.fallback, ")");
  }
  if (!type.overlay_type.empty()) text += Cat("; ", type.overlay_type, " in the overlay");
  if (type.importance == "none") text += "; no importance";
  return text;
}

Json Optional(std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

std::string TypeTable(const std::vector<TensorType>& types) {
  Table table({"name", "part", "shape", "source", "type", ">bytes", "rule"});
  for (const TensorType& type : types) {
    table.Row({type.name, PartName(type.part), FormatShape(type.shape), type.stored, type.type,
               std::to_string(type.bytes), RuleText(type)});
  }
  return table.Render();
}

Json TypesJson(const std::vector<TensorType>& types) {
  Json out = Json::array();
  for (const TensorType& type : types) {
    out.push_back({{"name", type.name},
                   {"source", Optional(type.source)},
                   {"part", PartName(type.part)},
                   {"shape", type.shape},
                   {"stored", type.stored},
                   {"type", type.type},
                   {"bytes", type.bytes},
                   {"rule", type.choice.rule},
                   {"detail", Optional(type.choice.detail)},
                   {"wanted", type.choice.wanted->name},
                   {"fallback", Optional(type.fallback)},
                   {"overlay_type", Optional(type.overlay_type)},
                   {"importance", Optional(type.importance)}});
  }
  return out;
}

}  // namespace moepack::cli
