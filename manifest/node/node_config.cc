#include "manifest/node/node_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/base/text/python_json.h"
#include "libshard/base/text/text.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::manifest {
namespace {

// Returns the object that holds the last part of "text_config.num_experts"; null if there is none.
Json* ParentOf(Json& root, const std::vector<std::string>& path) {
  Json* at = &root;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    const auto next = at->find(path[i]);
    if (next == at->end() || !next->is_object()) return nullptr;
    at = &*next;
  }
  return at;
}

// True if each of `groups` equal runs of `experts` ids has equally many of `eligible`, and at least
// two. Routers like DeepSeek-V3's score a group by its two best experts.
bool EqualShares(const ExpertIds& eligible, uint32_t expert_count, uint32_t groups) {
  if (expert_count % groups != 0 || eligible.size() % groups != 0) return false;
  std::vector<size_t> shares(groups, 0);
  for (const uint32_t id : eligible) ++shares[id / (expert_count / groups)];
  const size_t share = eligible.size() / groups;
  return share >= 2 &&
         std::all_of(shares.begin(), shares.end(), [&](size_t count) { return count == share; });
}

bool KeepsRoutingGroups(const Routing& routing, uint32_t top_k, const Plan& plan, size_t group) {
  return std::all_of(plan.layers.begin(), plan.layers.end(), [&](const auto& layer) {
    const ExpertIds eligible = Eligible(plan, group, layer.first);
    const uint64_t reachable = eligible.size() / routing.groups * std::max(1u, routing.groups_used);
    return EqualShares(eligible, layer.second, routing.groups) && top_k <= reachable;
  });
}

// Sets a count of experts: one number, or a list with one per layer, in which 0 means a dense
// layer.
void SetCount(Json& count, uint64_t expert_count) {
  if (!count.is_array()) {
    count = expert_count;
    return;
  }
  for (Json& layer : count) {
    if (layer != 0) layer = expert_count;
  }
}

// Sets the count in the configs of single blocks, too.
void SetBlockCounts(Json& parent, uint64_t expert_count) {
  const auto blocks = parent.find(*fields::kBlockConfigs.begin());
  if (blocks == parent.end() || !blocks->is_array()) return;
  for (Json& block : *blocks) {
    for (const char* key : fields::kExperts) {
      if (block.is_object() && block.contains(key)) block[key] = expert_count;
    }
  }
}

Status SetTopK(const std::string& where, uint32_t top_k, Json& parent) {
  bool any = false;
  for (const char* key : fields::kTopK) {
    const auto found = parent.find(key);
    if (found == parent.end()) continue;
    SetCount(*found, top_k);
    any = true;
  }
  if (any) return Ok();
  return Error{Code::kUnsupported, Cat(where,
                                       ": expected how many experts a token uses beside the "
                                       "number of experts, found nothing")};
}

// Sets n_group and topk_group to 1 wherever they are. If the family has groups but the config lacks
// the keys, they are added beside the number of experts.
void SetOneGroup(Json& document, Json& parent) {
  for (const ConfigKeys keys : {fields::kExpertGroups, fields::kExpertGroupsUsed}) {
    bool somewhere = false;
    for (Json* object : {&document, &parent}) {
      for (const char* key : keys) {
        if (!object->contains(key)) continue;
        (*object)[key] = 1;
        somewhere = true;
      }
    }
    if (!somewhere) parent[*keys.begin()] = 1;
  }
}

}  // namespace

Result<NodeConfig> MakeNodeConfig(const ConfigOfModel& source, const Plan& plan, size_t group) {
  const auto& [where, text, config, routing, top_k] = source;
  SHARD_TRY(Json document, ParsePythonJson(where, text));
  std::vector<std::string> path = moepack::Split(config.expert_count_key, '.');
  // The number may be in the configs of single blocks alone.
  const bool in_blocks = path.size() > 1 && path[path.size() - 2] == *fields::kBlockConfigs.begin();
  if (in_blocks) path.pop_back();
  Json* parent = ParentOf(document, path);
  if (parent == nullptr || !parent->contains(path.back())) {
    return Error{Code::kCorrupt, Cat(where, ": ", config.expert_count_key,
                                     ": expected the number of experts, found nothing")};
  }
  const uint64_t expert_count = Eligible(plan, group, plan.layers.begin()->first).size();
  const Json before = (*parent)[path.back()];
  for (const char* key : ExpertCountKeys()) {
    const auto count = parent->find(key);
    if (count != parent->end() && *count == before) SetCount(*count, expert_count);
  }
  SetBlockCounts(*parent, expert_count);
  if (top_k > 0) SHARD_CHECK(SetTopK(where, top_k, *parent));
  NodeConfig out;
  if (routing.groups > 1 &&
      !KeepsRoutingGroups(routing, top_k > 0 ? top_k : routing.top_k, plan, group)) {
    SetOneGroup(document, *parent);
    out.notes.push_back(Cat("routing groups: the node's experts do not fill the ",
                            Plural(routing.groups, "group"),
                            " of the router evenly; n_group and "
                            "topk_group are now 1, so that all of its experts compete"));
  }
  out.text = WritePythonJson(document);
  return out;
}

}  // namespace moepack::manifest
