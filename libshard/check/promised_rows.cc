#include "libshard/check/promised_rows.h"

#include <algorithm>
#include <map>
#include <optional>

#include "libshard/base/text/text.h"
#include "libshard/check/module.h"

namespace moepack {
namespace {

constexpr std::string_view kLeaf = ".{W}";

bool Has(const TensorRule& rule, std::string_view token) {
  return rule.pattern.find(token) != std::string::npos;
}

// Returns the pattern up to its leaf.
std::string_view StemOf(const TensorRule& rule) {
  const std::string_view pattern = rule.pattern;
  return pattern.ends_with(kLeaf) ? pattern.substr(0, pattern.size() - kLeaf.size()) : pattern;
}

// Returns "layers.{L}.mlp.experts." for "layers.{L}.mlp.experts.gate_proj.{W}"; "" for a name whose
// last component is not a whole word.
std::string_view ContainerOf(const TensorRule& rule) {
  const std::string_view stem = StemOf(rule);
  const size_t dot = stem.rfind('.');
  if (dot == std::string_view::npos || stem.find('{', dot) != std::string_view::npos) return {};
  return stem.substr(0, dot + 1);
}

std::string_view NameOf(const TensorRule& rule) {
  return StemOf(rule).substr(ContainerOf(rule).size());
}

std::optional<Module> ModuleOfRow(const TensorRule& rule) {
  return ModuleOf(rule.role, NameOf(rule));
}

struct Wanted {
  Part part = Part::kTrunk;
  std::string_view role = {};  // "" for any
  bool fused = false;          // gate and up in one tensor, if the family has both forms
  bool explicit_experts = false;
};

// Returns the projections of the first container that has such rows.
std::vector<const TensorRule*> Projections(const Family& family, const Wanted& wanted) {
  std::map<Module, const TensorRule*> modules;
  std::string_view container;
  for (const TensorRule& rule : family.rules) {
    const bool fits = rule.part == wanted.part && Has(rule, "{L}") && rule.role != "shared_gate" &&
                      (wanted.role.empty() || rule.role == wanted.role) &&
                      Has(rule, "{E}") == wanted.explicit_experts;
    const std::string_view own = ContainerOf(rule);
    if (!fits || own.empty() || (!container.empty() && own != container)) continue;
    container = own;
    if (const auto module = ModuleOfRow(rule)) modules.try_emplace(*module, &rule);
  }
  const bool fused =
      modules.contains(Module::kFusedIn) && (wanted.fused || !modules.contains(Module::kGate));
  std::vector<const TensorRule*> out;
  for (const Module module : {Module::kGate, Module::kUp, Module::kFusedIn, Module::kDown}) {
    const bool joined = module == Module::kFusedIn, last = module == Module::kDown;
    if ((joined != fused && !last) || !modules.contains(module)) continue;
    out.push_back(modules[module]);
  }
  return out;
}

std::vector<std::string> Names(const std::vector<const TensorRule*>& rules, std::string_view leaf) {
  std::vector<std::string> names;
  for (const TensorRule* rule : rules) {
    names.push_back(Cat(StemOf(*rule), rule->pattern.ends_with(kLeaf) ? leaf : ""));
  }
  return names;
}

// Returns the first row of `role` in a layer, or outside layers, whose components are whole words.
std::string First(const Family& family, std::string_view role, bool layered) {
  for (const TensorRule& rule : family.rules) {
    if (rule.role != role || Has(rule, "{M}") || Has(rule, "{L}") != layered) continue;
    if (Has(rule, "{*}") || Has(rule, "{**}")) continue;
    return Cat(StemOf(rule), rule.pattern.ends_with(kLeaf) ? ".weight" : "");
  }
  return "";
}

}  // namespace

PromisedRows::PromisedRows(const Family& family) {
  embedding = First(family, "embedding", false);
  for (const TensorRule& rule : family.rules) {
    if (rule.pattern == "word_embeddings.{W}") embedding = "word_embeddings.weight";
  }
  norm = First(family, "norm", false);
  head = First(family, "head", false);
  router = First(family, "router", true);
  selection_bias = First(family, "selection_bias", true);
  bias_row = std::any_of(family.rules.begin(), family.rules.end(), [](const TensorRule& rule) {
    return rule.role == "selection_bias" && rule.expert_axis == -1;
  });
  shared_gate = First(family, "shared_gate", true);
  for (const TensorRule& rule : family.rules) {
    layer_norms = layer_norms || rule.pattern == "layers.{L}.{*}norm.{W}";
    appended_mtp = appended_mtp || (rule.role == "mtp" && Has(rule, "{L}"));
    own_mtp = own_mtp || rule.pattern == "mtp.layers.{M}.self_attn.{**}";
  }
  // Families that store packed experts transposed always pack them.
  const bool fused = family.facts.transposed || family.promise.packed;
  auto rules = Projections(family, {Part::kExpert, {}, fused, !fused});
  packed = fused || rules.empty();
  if (rules.empty()) rules = Projections(family, {Part::kExpert, {}, fused, false});
  experts = Names(rules, fused ? "" : ".weight");
  shared = Names(Projections(family, {.part = Part::kShared}), ".weight");
  dense = Names(Projections(family, {.part = Part::kTrunk, .role = "dense_mlp"}), ".weight");
}

std::string Spelled(std::string_view pattern, uint32_t layer, uint32_t expert) {
  std::string out;
  while (!pattern.empty()) {
    const size_t brace = std::min(pattern.find('{'), pattern.size());
    out += pattern.substr(0, brace);
    pattern.remove_prefix(brace);
    if (pattern.empty()) break;
    out += std::to_string(pattern.starts_with("{E}") ? expert : layer);
    pattern.remove_prefix(3);
  }
  return out;
}

}  // namespace moepack
