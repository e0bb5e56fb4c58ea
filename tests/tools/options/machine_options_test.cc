#include "tools/options/machine_options.h"

#include <gtest/gtest.h>

namespace moepack::cli {
namespace {

std::string NodesRefusal(const std::vector<std::string>& texts) {
  const auto nodes = ParseNodes(texts);
  return nodes ? "" : nodes.error().message;
}

TEST(MachineOptions, ANodeOptionMayDescribeSeveralMachines) {
  const auto nodes = ParseNodes({"24GB", "16GBx3", "16GiB X2", "512 MB x1"});
  ASSERT_TRUE(nodes) << nodes.error().message;
  const uint64_t small = 16'000'000'000, binary = uint64_t{16} << 30;
  EXPECT_EQ(*nodes, (std::vector<uint64_t>{24'000'000'000, small, small, small, binary, binary,
                                           512'000'000}));
}

TEST(MachineOptions, NodesWithoutMemoryAndInvalidSizesAreRefused) {
  EXPECT_EQ(NodesRefusal({"24GB", "0GB"}), "--node: expected a machine with memory, found \"0GB\"");
  EXPECT_EQ(NodesRefusal({"lots"}),
            "--node: expected a size such as 24GB or 16GBx3, found \"lots\"");
  EXPECT_EQ(NodesRefusal({"16GBx"}),
            "--node: expected a size such as 24GB or 16GBx3, found \"16GBx\"");
  EXPECT_EQ(NodesRefusal({"16GBx0"}), "--node: expected 1 to 65536 machines, found \"16GBx0\"");
  EXPECT_EQ(NodesRefusal({"1GB", "1GBx65536"}),
            "--node: expected 1 to 65536 machines, found \"1GBx65536\"");
}

TEST(MachineOptions, TokenCountsMayHaveBinarySuffixes) {
  EXPECT_EQ(ParseTokens("4096"), 4096u);
  EXPECT_EQ(ParseTokens("32k"), 32768u);
  EXPECT_EQ(ParseTokens("1M"), 1048576u);
  for (const char* text : {"0", "0k", "", "k", "-1", "1.5k", "2048m", "99999999999999999999"}) {
    EXPECT_EQ(ParseTokens(text), std::nullopt) << text;
  }
}

std::string Refusal(const MachineArguments& arguments, uint32_t groups) {
  const Status checked = CheckMachineOptions(arguments, groups);
  return checked ? "" : checked.error().message;
}

TEST(MachineOptions, RequiresAsManyMachinesAsGroupsOrStages) {
  MachineArguments arguments;
  arguments.nodes = {"16GBx3"};
  EXPECT_EQ(Refusal(arguments, 0), "");
  EXPECT_EQ(Refusal(arguments, 3), "");
  EXPECT_EQ(Refusal(arguments, 4), "--groups 4 and 3 machines of --node contradict each other");
  arguments.stages = 3;
  EXPECT_EQ(Refusal(arguments, 4), "");
  arguments.stages = 2;
  EXPECT_EQ(Refusal(arguments, 4), "--stages 2 and 3 machines of --node contradict each other");
  arguments.nodes = {"16GB"};
  EXPECT_EQ(Refusal(arguments, 4), "--stages 2 and 1 machine of --node contradict each other");
}

TEST(MachineOptions, OptionsWithoutEffectAreRefused) {
  MachineArguments arguments;
  arguments.reserve = 1;
  EXPECT_EQ(Refusal(arguments, 2), "--reserve has no effect without machines");
  arguments.stages = 2;
  EXPECT_EQ(Refusal(arguments, 2), "") << "every stage has buffers";
  arguments.stages = 0;
  arguments.context = 4096;
  EXPECT_EQ(Refusal(arguments, 2), "");
  arguments = {};
  arguments.sessions = 2;
  EXPECT_EQ(Refusal(arguments, 2), "--sessions has no effect without a context");
  arguments = {};
  arguments.kv_type = "q8_0";
  EXPECT_EQ(Refusal(arguments, 2), "--kv-type has no effect without a context");
  arguments = {};
  arguments.sweep = true;
  arguments.nodes = {"16GB", "24GB"};
  EXPECT_EQ(Refusal(arguments, 0), "--sweep: expected one machine of --node, found 2");
  arguments.nodes = {"16GBx3"};
  EXPECT_EQ(Refusal(arguments, 0), "--sweep: expected one machine of --node, found 3");
  arguments.nodes = {"16GB"};
  EXPECT_EQ(Refusal(arguments, 0), "");
}

TEST(MachineOptions, TakesTypesFromARecipeOrNone) {
  MachineArguments arguments;
  const auto none = TypesOf(arguments);
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->has_value());
  arguments.quantize.options.alignment = 4096;
  const auto aligned = TypesOf(arguments);
  ASSERT_FALSE(aligned);
  EXPECT_EQ(aligned.error().message, "--alignment has no effect without types");
  arguments.quantize.options.recipe.recipe = "Q8_0";
  const auto types = TypesOf(arguments);
  ASSERT_TRUE(types && types->has_value());
  EXPECT_EQ((*types)->alignment, 4096u);
}

TEST(MachineOptions, TheCacheDefaultsToOneSessionOf4096Tokens) {
  const auto usual = CacheUseOf({});
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->context, 4096u);
  EXPECT_EQ(usual->sessions, 1u);
  EXPECT_EQ(usual->type->name, "f16");
}

}  // namespace
}  // namespace moepack::cli
