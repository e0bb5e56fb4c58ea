#include "tools/reports/runs/check_report.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "tools/base/output.h"

namespace moepack::cli {
namespace {

std::string Summary(const MoeModel& model) {
  const std::string config = model.config_path().filename().string();
  std::string text = Cat("ok: ", Plural(model.tensors().size(), "tensor"), ", ",
                         Plural(model.config().layers, "layer"), ", ",
                         Plural(model.max_experts(), "expert"), " as ", Shown(config), " says");
  if (model.checkpoint().names_only()) text += " (names only: shapes unchecked)";
  return text + "\n";
}

}  // namespace

std::string CheckText(const MoeModel& model, const std::vector<CheckFinding>& findings) {
  if (findings.empty()) return Summary(model);
  std::string text;
  for (const CheckFinding& finding : findings) text += Shown(moepack::FindingText(finding)) + "\n";
  text += "\n" + Plural(findings.size(), "finding");
  if (model.checkpoint().names_only()) text += " (names only: shapes unchecked)";
  return text + "\n";
}

Json CheckJson(const MoeModel& model, const std::vector<CheckFinding>& findings) {
  Json list = Json::array();
  for (const CheckFinding& finding : findings) {
    list.push_back({{"kind", FindingKindName(finding.kind)},
                    {"what", finding.what},
                    {"expected", finding.expected},
                    {"found", finding.found}});
  }
  return {{"source", model.checkpoint().source().string()},
          {"family", model.family().name},
          {"ok", findings.empty()},
          {"tensors", model.tensors().size()},
          {"layers", model.config().layers},
          {"experts", model.max_experts()},
          {"shapes_checked", !model.checkpoint().names_only()},
          {"findings", std::move(list)}};
}

}  // namespace moepack::cli
