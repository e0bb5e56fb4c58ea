#include "manifest/node/node_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "libshard/base/text/python_json.h"
#include "libshard/base/text/text.h"

namespace moepack::manifest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// One group that holds `held` of the `experts` of layer 0.
Plan PlanWith(const ExpertIds& held, uint32_t experts, uint32_t top_k = 2) {
  Plan plan;
  plan.scheme = "explicit";
  plan.layers = {{0, experts}};
  plan.top_k = {{0, top_k}};
  plan.groups.resize(1);
  plan.groups[0].owned[0] = held;
  return plan;
}

NodeConfig Make(const std::string& text, const Plan& plan, const Family& family = {},
                uint32_t top_k = 0) {
  const auto config = ParseModelConfig("config.json", text);
  EXPECT_TRUE(config) << config.error().message;
  const std::string where = "config.json";
  const Routing routing = ResolveRouting(family, *config);
  const auto made = MakeNodeConfig({where, text, *config, routing, top_k}, plan, 0);
  EXPECT_TRUE(made) << made.error().message;
  return made ? *made : NodeConfig();
}

TEST(NodeConfig, ChangesOnlyTheCountAndKeepsTheOrderOfFields) {
  const NodeConfig made = Make(
      R"({"z": 1, "num_hidden_layers": 1, "num_experts": 6, "num_experts_per_tok": 2,
          "a": {"num_experts": 6, "y": [1, 2.5, null, true, "x"]}, "hidden_size": 8})",
      PlanWith({0, 2, 5}, 6));
  EXPECT_EQ(made.text, R"({
  "z": 1,
  "num_hidden_layers": 1,
  "num_experts": 3,
  "num_experts_per_tok": 2,
  "a": {
    "num_experts": 6,
    "y": [1, 2.5, null, true, "x"]
  },
  "hidden_size": 8
}
)");
  EXPECT_THAT(made.notes, IsEmpty());
}

TEST(NodeConfig, ChangesTheCountInTheConfigsOfBlocks) {
  const std::string blocks = R"("block_configs": [
      {"block_type": "mamba"},
      {"block_type": "moe", "n_routed_experts": 6, "num_experts_per_tok": 2}])";
  for (const char* root : {R"("n_routed_experts": 6, )", ""}) {
    const NodeConfig made =
        Make(Cat(R"({"num_hidden_layers": 2, )", root, blocks, "}"), PlanWith({0, 2, 5}, 6));
    const Json node = Json::parse(made.text);
    EXPECT_EQ(node["block_configs"][0], Json({{"block_type", "mamba"}}));
    EXPECT_EQ(node["block_configs"][1]["n_routed_experts"], 3);
    EXPECT_EQ(node["block_configs"][1]["num_experts_per_tok"], 2);
    const bool both = *root != '\0';
    EXPECT_EQ(node.value("n_routed_experts", 0), both ? 3 : 0);
  }
}

// A refit may be made for more experts per token.
TEST(NodeConfig, TakesTheExpertsPerTokenFromTheRefit) {
  const NodeConfig made = Make(R"({"text_config": {"num_hidden_layers": 1, "num_experts": 6,
                "num_experts_per_tok": 2}, "num_experts_per_tok": 2})",
                               PlanWith({0, 2, 5}, 6), {}, 3);
  const auto document = nlohmann::json::parse(made.text);
  EXPECT_EQ(document["text_config"]["num_experts_per_tok"], 3);
  EXPECT_EQ(document["num_experts_per_tok"], 2);
  const std::string where = "config.json", text = R"({"num_hidden_layers": 1, "num_experts": 6})";
  const auto config = ParseModelConfig(where, text);
  ASSERT_TRUE(config);
  const auto refused = MakeNodeConfig({where, text, *config, {}, 3}, PlanWith({0, 2, 5}, 6), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "config.json: expected how many experts a token uses beside the number of experts, "
            "found nothing");
}

TEST(NodeConfig, ChangesANestedCountInPlace) {
  const NodeConfig made = Make(R"({"text_config": {"num_hidden_layers": 1, "num_experts": 6,
                "num_experts_per_tok": 2}, "vision_config": {"num_experts": 4}})",
                               PlanWith({0, 2, 5}, 6));
  const auto document = nlohmann::json::parse(made.text);
  EXPECT_EQ(document["text_config"]["num_experts"], 3);
  EXPECT_EQ(document["vision_config"]["num_experts"], 4);
  EXPECT_FALSE(document.contains("num_experts"));
}

TEST(NodeConfig, AListOfCountsKeepsItsLengthAndItsDenseLayers) {
  Plan plan = PlanWith({0, 2, 5}, 6);
  plan.layers = {{1, 6}, {2, 6}};
  plan.groups[0].owned = {{1, {0, 2, 5}}, {2, {1, 2, 3}}};
  const NodeConfig made =
      Make(R"({"num_hidden_layers": 3, "num_experts": [0, 6, 6], "num_experts_per_tok": 2})", plan);
  EXPECT_THAT(nlohmann::json::parse(made.text)["num_experts"], ElementsAre(0, 3, 3));
}

TEST(NodeConfig, InfinityStaysAsPythonWritesIt) {
  const NodeConfig made =
      Make(R"({"num_hidden_layers": 1, "n_routed_experts": 6, "num_experts_per_tok": 2,
               "time_step_limit": [0.0, Infinity], "low": -Infinity})",
           PlanWith({0, 2, 5}, 6));
  EXPECT_THAT(made.text, HasSubstr("\"time_step_limit\": [0.0, Infinity]"));
  EXPECT_THAT(made.text, HasSubstr("\"low\": -Infinity"));
  EXPECT_THAT(made.text, HasSubstr("\"n_routed_experts\": 3"));
}

std::string Grouped(uint32_t top_k, const std::string& used = "1") {
  return Cat(R"({"num_hidden_layers": 1, "n_routed_experts": 8, "num_experts_per_tok": )", top_k,
             R"(, "n_group": 2, "topk_group": )", used, "}");
}

void ExpectGroups(const NodeConfig& made, int groups, int used) {
  const auto document = nlohmann::json::parse(made.text);
  EXPECT_EQ(document["n_group"], groups);
  EXPECT_EQ(document["topk_group"], used);
}

TEST(NodeConfig, RoutingGroupsWithEqualSharesAreKept) {
  const NodeConfig made = Make(Grouped(2), PlanWith({0, 3, 4, 6}, 8));
  ExpectGroups(made, 2, 1);
  EXPECT_THAT(made.notes, IsEmpty());
}

TEST(NodeConfig, UnequalRoutingGroupsBecomeOneWithANote) {
  struct Case {
    const char* why;
    uint32_t top_k;
    ExpertIds held;
  };
  for (const Case& c :
       {Case{"shares differ", 2, {0, 1, 2, 4}}, Case{"a group is empty", 2, {0, 1, 2, 3}},
        Case{"one of each: no two best scores", 1, {0, 4}},
        Case{"top-k is more than the chosen group holds", 3, {0, 3, 4, 6}},
        Case{"an odd number", 2, {0, 1, 4, 5, 6}}}) {
    const NodeConfig made = Make(Grouped(c.top_k), PlanWith(c.held, 8, c.top_k));
    ExpectGroups(made, 1, 1);
    ASSERT_EQ(made.notes.size(), 1u) << c.why;
    EXPECT_THAT(made.notes[0], HasSubstr("2 groups of the router")) << c.why;
  }
}

TEST(NodeConfig, OneUnequalLayerIsEnoughToDropRoutingGroups) {
  Plan plan = PlanWith({0, 3, 4, 6}, 8);
  plan.layers[1] = 8;
  plan.groups[0].owned[1] = {0, 1, 2, 4};
  ExpectGroups(Make(Grouped(2), plan), 1, 1);
}

TEST(NodeConfig, RoutingGroupsOutsideTheNestedConfigAreFoundToo) {
  const NodeConfig made = Make(
      R"({"n_group": 2, "topk_group": 1, "text_config": {"num_hidden_layers": 1,
          "n_routed_experts": 8, "num_experts_per_tok": 2}})",
      PlanWith({0, 1, 2, 4}, 8));
  ExpectGroups(made, 1, 1);
  EXPECT_EQ(made.notes.size(), 1u);
}

// DeepSeek-V3's class fills in eight groups, and would use them to choose among fewer experts.
TEST(NodeConfig, RoutingGroupsKnownOnlyFromTheFamilyAreWrittenAsOne) {
  Family family;
  family.routing.groups = 2;
  family.routing.groups_used = 1;
  const std::string text =
      R"({"text_config": {"num_hidden_layers": 1, "n_routed_experts": 8,
          "num_experts_per_tok": 2}})";
  const NodeConfig kept = Make(text, PlanWith({0, 3, 4, 6}, 8), family);
  EXPECT_EQ(kept.text.find("n_group"), std::string::npos);
  const NodeConfig given_up = Make(text, PlanWith({0, 1, 2, 4}, 8), family);
  const auto document = nlohmann::json::parse(given_up.text);
  EXPECT_EQ(document["text_config"]["n_group"], 1);
  EXPECT_EQ(document["text_config"]["topk_group"], 1);
  EXPECT_EQ(given_up.notes.size(), 1u);
}

TEST(NodeConfig, TextThatContradictsTheParsedConfigIsCorrupt) {
  ModelConfig config;
  for (const char* key : {"num_experts", "text_config.num_experts", "a.b.c"}) {
    config.expert_count_key = key;
    const auto made =
        MakeNodeConfig({"config.json", R"({"a": 1})", config, {}}, PlanWith({0, 1}, 4), 0);
    ASSERT_FALSE(made) << key;
    EXPECT_EQ(made.error().code, Code::kCorrupt);
    EXPECT_THAT(made.error().message,
                HasSubstr(Cat(key, ": expected the number of experts, found nothing")));
  }
  const auto cut = MakeNodeConfig({"config.json", "{", config, {}}, PlanWith({0, 1}, 4), 0);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Code::kCorrupt);
  EXPECT_THAT(cut.error().message, HasSubstr("config.json"));
}

}  // namespace
}  // namespace moepack::manifest
